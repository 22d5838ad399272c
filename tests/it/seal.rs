//! Seals: a handle opens for whom it was sealed, as what it was sealed, and for nothing else.

use oncegate::domain::actor::Actor;
use oncegate::domain::fingerprint::Secrets;
use oncegate::domain::seal::{Handle, Opened, Seal};
use proptest::prelude::*;

const ONE: &[u8] = b"one secret of thirty-two bytes..";
const OTHER: &[u8] = b"another secret of the same kind!";
const HANDLES: [Handle; 3] = [Handle::Session, Handle::Task, Handle::Event];

fn under(secrets: &[&[u8]], service: &str) -> Seal {
    Seal::new(Secrets::new(secrets).unwrap(), service)
}

fn actor(tenant: &str, user: &str) -> Actor {
    Actor::new(tenant, user, Some("s1"), []).unwrap()
}

fn ann() -> Actor {
    actor("acme", "ann")
}

fn held(raw: &str, note: &[&str]) -> Opened {
    Opened { raw: raw.to_owned(), note: note.iter().map(|&text| text.to_owned()).collect() }
}

#[test]
fn a_handle_comes_back_with_its_notes() {
    let seal = under(&[ONE], "billing");
    for handle in HANDLES {
        for (raw, note) in [
            ("task-1", &["refund_order"] as &[&str]),
            ("a~b.c~", &["", "~.", "\u{1f511}", "3"]),
            ("", &[]),
            ("~", &[""]),
        ] {
            let sealed = seal.seal(handle, &ann(), raw, note);
            assert!(sealed.starts_with(&format!("{raw}~")), "{sealed}");
            assert_eq!(seal.open(handle, &ann(), &sealed), Some(held(raw, note)), "{sealed}");
        }
    }
}

#[test]
fn the_same_user_on_another_login_keeps_its_handles() {
    let seal = under(&[ONE], "billing");
    let sealed = seal.seal(Handle::Session, &ann(), "s", &[]);
    let later = Actor::new("acme", "ann", Some("s2"), ["billing:read".to_owned()]).unwrap();
    assert_eq!(seal.open(Handle::Session, &later, &sealed), Some(held("s", &[])));
}

#[test]
fn a_seal_for_one_is_none_for_another() {
    let seal = under(&[ONE], "billing");
    let sealed = seal.seal(Handle::Task, &ann(), "t", &["refund_order"]);
    // The last two would be the same as Ann if the parts were hashed without their lengths.
    for (tenant, user) in
        [("acme", "bob"), ("globex", "ann"), ("ann", "acme"), ("acmea", "nn"), ("acm", "eann")]
    {
        assert_eq!(seal.open(Handle::Task, &actor(tenant, user), &sealed), None, "{tenant} {user}");
    }
    for handle in [Handle::Session, Handle::Event] {
        assert_eq!(seal.open(handle, &ann(), &sealed), None, "{handle:?}");
    }
    assert_eq!(under(&[ONE], "shop").open(Handle::Task, &ann(), &sealed), None, "another service");
    assert_eq!(under(&[OTHER], "billing").open(Handle::Task, &ann(), &sealed), None, "another secret");
}

#[test]
fn what_was_not_sealed_does_not_open() {
    let seal = under(&[ONE], "billing");
    let sealed = seal.seal(Handle::Task, &ann(), "t", &["a", "b"]);
    let (raw, rest) = sealed.rsplit_once('~').unwrap();
    let (tag, notes) = rest.split_once('.').unwrap();
    for forged in [
        "t".to_owned(),
        String::new(),
        "t~".to_owned(),
        format!("{raw}~{tag}"),
        format!("{raw}~.{notes}"),
        format!("{raw}~{tag}.{notes}.{notes}"),
        format!("{raw}~{tag}.YWI"),
        format!("{raw}~{tag}.Yg.YQ"),
        format!("{raw}~{tag}={}", &sealed[raw.len() + 1 + tag.len()..]),
        format!("{raw}~{}.{notes}", &tag[..20]),
        format!("{raw}~{}.{notes}", "A".repeat(43)),
        format!("{sealed}."),
        format!(" {sealed}"),
    ] {
        assert_eq!(seal.open(Handle::Task, &ann(), &forged), None, "{forged}");
    }
}

#[test]
fn after_a_change_of_secrets_the_old_seals_still_open() {
    let old = under(&[ONE], "billing").seal(Handle::Session, &ann(), "s", &[]);
    let both = under(&[OTHER, ONE], "billing");
    assert_eq!(both.open(Handle::Session, &ann(), &old), Some(held("s", &[])));
    assert_ne!(both.seal(Handle::Session, &ann(), "s", &[]), old, "the first secret seals");
}

#[test]
fn a_seal_is_the_same_in_every_version() {
    // Clients hold them across releases: whoever changes this line ends every session and loses every task.
    let sealed = under(&[ONE], "billing").seal(Handle::Task, &ann(), "t", &["refund_order"]);
    assert_eq!(sealed, "t~d1XkTQh-zyITyr_70eBkQA.cmVmdW5kX29yZGVy");
}

proptest! {
    #[test]
    fn whatever_is_sealed_opens(raw in any::<String>(), note in proptest::collection::vec(any::<String>(), 0..4)) {
        let seal = under(&[ONE], "billing");
        let note: Vec<&str> = note.iter().map(String::as_str).collect();
        let sealed = seal.seal(Handle::Event, &ann(), &raw, &note);
        prop_assert_eq!(seal.open(Handle::Event, &ann(), &sealed), Some(held(&raw, &note)));
        prop_assert!(sealed[raw.len()..].bytes().all(|byte| byte.is_ascii_graphic()), "{}", sealed);
    }

    #[test]
    fn no_seal_opens_once_it_is_changed(
        raw in "[!-~]{0,12}",
        note in proptest::collection::vec("[ -~]{0,6}", 0..3),
        at in any::<prop::sample::Index>(),
        to in "[!-~]",
        cut in any::<bool>(),
    ) {
        let seal = under(&[ONE, OTHER], "billing");
        let note: Vec<&str> = note.iter().map(String::as_str).collect();
        let sealed = seal.seal(Handle::Task, &ann(), &raw, &note);
        let at = at.index(sealed.len());
        let to = if cut { "" } else { &to };
        let changed = format!("{}{to}{}", &sealed[..at], &sealed[at + 1..]);
        prop_assume!(changed != sealed);
        prop_assert_eq!(seal.open(Handle::Task, &ann(), &changed), None);
    }

    #[test]
    fn nothing_opens_by_chance(sealed in any::<String>()) {
        prop_assert_eq!(under(&[ONE], "billing").open(Handle::Session, &ann(), &sealed), None);
    }
}
