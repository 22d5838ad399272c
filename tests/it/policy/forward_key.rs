//! The key that the app hears: never the same for two calls that its template tells apart.

use oncegate::domain::policy::{ForwardKey, Forwarded};

#[test]
fn templates_that_could_confuse_two_calls_are_mistakes() {
    for (template, fault) in [
        (
            "{tenant}{key}",
            "a separator such as \"/\" must stand between two variables, or two calls could forward one key",
        ),
        (
            "{tenant}-{tool}/{key}",
            "a separator such as \"/\" must stand between two variables, or two calls could forward one key",
        ),
        ("{key}/{key}", "{key} may stand only once"),
        ("{tenant}/{tool}", "it must contain {key} or {digest}, or every call would forward the same key"),
        ("{user}/{key}", "unknown variable {user}; there are {key}, {tenant}, {tool} and {digest}"),
        ("{key", "a brace has no partner"),
        ("key}/{key}", "a brace has no partner"),
        ("a {key}", "only printable ASCII without blanks can stand in a header"),
    ] {
        let found = ForwardKey::parse(template, false).expect_err(template).to_string();
        assert_eq!(found, fault, "{template}");
    }
}

const CALL: Forwarded<'_> =
    Forwarded { service: "billing", tenant: "acme/eu", tool: "refund_order", key: "k/1" };

#[test]
fn a_bare_key_is_forwarded_as_it_came() {
    assert_eq!(ForwardKey::bare().header_value(CALL), "k/1");
    let quoted = ForwardKey::parse("{key}", true).expect("a template");
    assert_eq!(quoted.header_value(Forwarded { key: r#"a"b\c"#, ..CALL }), r#""a\"b\\c""#);
}

#[test]
fn tenants_with_separators_in_their_names_stay_apart() {
    let template = ForwardKey::parse("{tenant}/{tool}/{key}", false).expect("a template");
    assert_eq!(template.render(CALL), "acme%2Feu/refund_order/k/1");
    let other = Forwarded { tenant: "acme", tool: "eu/refund_order", ..CALL };
    assert_ne!(template.render(CALL), template.render(other));
}

#[test]
fn a_digest_tells_every_part_apart() {
    let template = ForwardKey::parse("{digest}", false).expect("a template");
    let digest = template.render(CALL);
    assert_eq!(digest.len(), 64);
    for other in [
        Forwarded { service: "billin", tenant: "gacme/eu", ..CALL },
        Forwarded { tenant: "acme", ..CALL },
        Forwarded { tool: "refund", ..CALL },
        Forwarded { key: "k/2", ..CALL },
    ] {
        assert_ne!(template.render(other), digest, "{other:?}");
    }
}
