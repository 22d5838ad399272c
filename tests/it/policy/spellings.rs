//! However a guarded path is spelt, no open prefix lets it through.
//!
//! The app here is the most lenient one that we can think of: whatever it is sent, it decodes twice, cuts parameters off,
//! squeezes slashes, folds case, takes formats and PHP's front controller away, and follows dots.

use std::sync::LazyLock;

use oncegate::domain::policy::Policy;
use proptest::prelude::*;
use proptest::sample::select;

use super::policy;
use super::routes::routed;

/// Paths that change something: every spelling of them is theirs, or nobody's.
const GUARDED: [&str; 3] = ["/api/orders/o1/refunds", "/api/unsubscribe", "/pay.php"];

static OPEN_BUT_GUARDED: LazyLock<Policy> = LazyLock::new(|| {
    policy(
        "[routes.refund]\nmethod = \"POST\"\npath = \"/api/orders/{order}/refunds\"\neffect = \"mutation\"\nscopes = [\"s\"]\n\
         [routes.unsubscribe]\nmethod = \"GET\"\npath = \"/api/unsubscribe\"\neffect = \"mutation\"\nscopes = [\"s\"]\n\
         [routes.pay]\nmethod = \"POST\"\npath = \"/pay.php\"\neffect = \"mutation\"\nscopes = [\"s\"]\n\
         [routes.part]\nmethod = \"GET\"\npath = \"/api/{part}\"\neffect = \"read\"\n\
         [routes.deep]\nmethod = \"GET\"\npath = \"/api/orders/*\"\neffect = \"read\"\n\
         [routes.all]\nmethod = [\"GET\", \"POST\"]\npath = \"/*\"\neffect = \"read\"\n",
    )
});

/// What a lenient app makes of a path: the guarded path that it runs, if it runs one.
fn runs(path: &str) -> Option<&'static str> {
    let mut text = path.to_owned();
    for _ in 0..2 {
        text = percent_decode(&text);
    }
    let text = text.replace('\\', "/").to_lowercase().replace('ſ', "s");
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        let segment = segment.split(';').next().unwrap_or_default().trim();
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other.trim_end_matches(['.', ' '])),
        }
    }
    let behind =
        segments.iter().position(|one| one.split('.').next_back() == Some("php")).map_or(0, |at| at + 1);
    let script = segments.get(..behind).unwrap_or_default();
    let behind = segments.get(behind..).unwrap_or_default();
    GUARDED.into_iter().find(|guarded| {
        let wanted: Vec<&str> = guarded.split('/').skip(1).collect();
        let same = |found: &[&str]| {
            found.len() == wanted.len()
                && found.iter().zip(&wanted).enumerate().all(|(at, (one, other))| {
                    let one = if at + 1 == found.len() && !other.contains('.') {
                        one.split('.').next().unwrap_or_default()
                    } else {
                        one
                    };
                    one == *other || *other == "o1" && !one.is_empty()
                })
        };
        same(&segments) || same(script) || same(behind)
    })
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// One character, in one of the ways in which it can be written.
fn spelt(letter: char) -> impl Strategy<Value = String> {
    let code = u32::from(letter);
    prop_oneof![
        12 => Just(letter.to_string()),
        1 => Just(letter.to_uppercase().to_string()),
        1 => Just(format!("%{code:02X}")),
        1 => Just(format!("%{code:02x}")),
        1 => Just(format!("%25{code:02X}")),
        1 => select(vec!["", "/", "/./", "/x/../", ";v=1", "%2F", "\\", ".", "%20", "%00", "ſ", "%C5%BF"])
            .prop_map(move |beside| format!("{letter}{beside}")),
    ]
}

/// A guarded path, respelt, with something before and after it.
fn respelt() -> impl Strategy<Value = String> {
    let path = select(GUARDED.to_vec())
        .prop_flat_map(|path| path.chars().map(spelt).collect::<Vec<_>>().prop_map(|pieces| pieces.concat()));
    let before = select(vec!["", "", "", "/index.php", "/x/..", "/.", "/", "/%2E%2E", "/sub/INDEX.php"]);
    let after = select(vec!["", "", "", "/", "//", ".json", ".", "%20", "/.", ";a", "/x", "%2F", "?", "."]);
    (before, path, after).prop_map(|(before, path, after)| format!("{before}{path}{after}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_spelling_of_a_guarded_path_is_let_through_by_an_open_one(
        path in respelt(),
        method in select(vec!["GET", "POST", "HEAD"]),
    ) {
        let came_to = routed(&OPEN_BUT_GUARDED, &format!("{method} {path}"));
        let open = ["part", "deep", "all"].into_iter().any(|name| came_to.split(' ').next() == Some(name));
        if open {
            prop_assert_eq!(runs(&path), None, "{} {} came to {}", method, path, came_to);
        }
    }

    #[test]
    fn a_path_that_is_accepted_is_decoded_in_one_way_only(path in "(/[a-zA-Z0-9%._~;,@ -]{0,6}){1,4}") {
        if let Ok(normal) = oncegate::domain::policy::NormalPath::parse(&path) {
            prop_assert_eq!(normal.as_str(), &path);
            let once = percent_decode(&path);
            prop_assert_eq!(once.matches('/').count(), path.matches('/').count());
            prop_assert_eq!(&percent_decode(&once), &once, "a second decoder reads the same");
            prop_assert!(!once.contains("//") && !once.contains("/../") && !once.contains("/./"));
        }
    }
}

#[test]
fn the_lenient_app_runs_what_it_is_meant_to_run() {
    for (path, expected) in [
        ("/API//orders/../orders/7/refunds.json", Some(GUARDED[0])),
        ("/index.php/api/unsub%73cribe/", Some(GUARDED[1])),
        ("/pay.php/x", Some(GUARDED[2])),
        ("/api/%2575nsubscribe;v=1", Some(GUARDED[1])),
        ("/api/orders/7", None),
    ] {
        assert_eq!(runs(path), expected, "{path}");
    }
}
