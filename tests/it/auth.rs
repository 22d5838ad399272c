//! Tokens, with real keys: whom the gate believes, and whom it does not.

pub(crate) mod issuer;
mod keys;
mod service;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey};
use oncegate::auth::{AuthSetupFault, ClaimNames, Clock, KeySource, Pace, Settings, Verifier};
use serde_json::{Value, json};

use issuer::{AUDIENCE, EC, ISSUER, NOW, RSA, SECRET, claims, sign, sign_with_secret, with};

const LEEWAY: i64 = 30;
const MAX_AGE: i64 = 12 * 3600;

fn settings(keys: KeySource) -> Settings {
    Settings {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned(), "billing".to_owned()],
        keys,
        leeway: Duration::from_secs(30),
        max_session_age: Duration::from_hours(12),
        claims: ClaimNames {
            tenant: "tenant_id".to_owned(),
            user: "sub".to_owned(),
            session: "sid".to_owned(),
            scopes: "scope".to_owned(),
            roles: "realm_access.roles".to_owned(),
        },
        roles: BTreeMap::from([
            ("billing-ops".to_owned(), vec!["billing:read".to_owned(), "billing:refund".to_owned()]),
            ("mail".to_owned(), vec!["accounts:mail".to_owned()]),
        ]),
    }
}

/// A pace at which nothing happens by itself and every unknown key is asked for.
const EAGER: Pace =
    Pace { refresh: Duration::from_hours(1), on_miss: Duration::ZERO, timeout: Duration::from_secs(10) };

fn verifier_at(keys: KeySource, pace: Pace, now: &Arc<AtomicI64>) -> Verifier {
    let now = Arc::clone(now);
    Verifier::paced(settings(keys), pace, Clock::telling(move || now.load(Ordering::SeqCst))).unwrap()
}

fn verifier(keys: KeySource) -> Verifier {
    verifier_at(keys, EAGER, &Arc::new(AtomicI64::new(NOW)))
}

fn pem(signer: &issuer::Signer) -> KeySource {
    KeySource::Pem(signer.public_pem.clone().into_bytes())
}

/// What a token means to a verifier, in one line.
async fn meets(verifier: &Verifier, token: &str) -> String {
    match verifier.verify(token).await {
        Ok(caller) => {
            let actor = caller.actor();
            let session = actor.session().unwrap_or("-");
            format!("{}/{}/{session} [{}]", actor.tenant(), actor.user(), actor.scopes_joined())
        }
        Err(fault) => fault.to_string(),
    }
}

const GOOD: &str = "acme/u1/s1 [billing:read billing:refund]";
const ISSUED_ELSEWHERE: &str = "the token's issuer is not the expected one";
const FOR_OTHERS: &str = "the token is not meant for this audience";
const EXPIRED: &str = "the token has expired";
const NOT_YET: &str = "the token is not valid yet";
const TOO_OLD: &str = "the token's session is too old; sign in again";
const MALFORMED: &str = "the token is not a well-formed signed JWT";
const ALGORITHM: &str = "the token's algorithm is not accepted";
const SIGNATURE: &str = "the token's signature does not match";
const UNKNOWN_KEY: &str = "the token is signed with a key that is not known";

/// Signs good claims with these changes; the gate must say `expected`.
async fn check(changes: Value, expected: &str) {
    let token = EC.token(json!({}), &with(claims(), changes.clone()));
    assert_eq!(meets(&verifier(pem(&EC)), &token).await, expected, "{changes}");
}

#[tokio::test]
async fn the_issuer_must_be_the_configured_one_exactly() {
    check(json!({}), GOOD).await;
    for iss in [
        json!(null),
        json!("https://id.example.com/"),
        json!("HTTPS://id.example.com"),
        json!([ISSUER]),
        json!(1),
    ] {
        check(json!({ "iss": iss }), ISSUED_ELSEWHERE).await;
    }
}

#[tokio::test]
async fn one_of_the_audiences_must_be_ours() {
    for aud in [json!(AUDIENCE), json!("billing"), json!([AUDIENCE]), json!(["other", "billing"])] {
        check(json!({ "aud": aud }), GOOD).await;
    }
    let others = [
        json!(null),
        json!("other"),
        json!([]),
        json!(["other"]),
        json!([[AUDIENCE]]),
        json!({ AUDIENCE: 1 }),
    ];
    for aud in others {
        check(json!({ "aud": aud }), FOR_OTHERS).await;
    }
    check(json!({ "aud": [AUDIENCE, 1] }), FOR_OTHERS).await;
    check(json!({ "aud": format!("{AUDIENCE} other") }), FOR_OTHERS).await;
}

#[tokio::test]
async fn a_token_holds_until_its_expiry_and_the_leeway_have_passed() {
    check(json!({ "exp": NOW - LEEWAY + 1 }), GOOD).await;
    check(json!({ "exp": NOW - LEEWAY }), EXPIRED).await;
    check(json!({ "exp": NOW - 3600 }), EXPIRED).await;
    check(json!({ "exp": 1e12 }), GOOD).await;
    check(json!({ "exp": i64::MAX }), GOOD).await;
    check(json!({ "exp": null }), "the token does not say when it expires").await;
    for exp in [json!("1900000000"), json!(true), json!([1_900_000_000]), json!(1e300)] {
        check(json!({ "exp": exp }), "the token's claim for the exp is not of a usable kind").await;
    }
}

#[tokio::test]
async fn a_token_from_the_future_is_refused_beyond_the_leeway() {
    for name in ["nbf", "iat", "auth_time"] {
        check(json!({ name: NOW + LEEWAY }), GOOD).await;
        check(json!({ name: NOW + LEEWAY + 1 }), NOT_YET).await;
        check(json!({ name: "now" }), &format!("the token's claim for the {name} is not of a usable kind"))
            .await;
    }
}

#[tokio::test]
async fn a_session_ages_from_its_sign_in_or_else_from_the_issue_of_the_token() {
    check(json!({ "iat": NOW - MAX_AGE + 1 }), GOOD).await;
    check(json!({ "iat": NOW - MAX_AGE }), TOO_OLD).await;
    check(json!({ "auth_time": NOW - MAX_AGE + 1, "iat": NOW - 2 * MAX_AGE }), GOOD).await;
    check(json!({ "auth_time": NOW - MAX_AGE }), TOO_OLD).await;
    check(json!({ "iat": null }), "the token does not say how old its session is").await;
}

#[tokio::test]
async fn a_verified_token_says_until_when_it_holds() {
    let now = Arc::new(AtomicI64::new(NOW));
    let verifier = verifier_at(pem(&EC), EAGER, &now);
    let until = async |changes: Value| {
        let token = EC.token(json!({}), &with(claims(), changes));
        verifier.verify(&token).await.unwrap().until()
    };
    assert_eq!(until(json!({ "exp": NOW + 100 })).await, NOW + 100 + LEEWAY);
    assert_eq!(until(json!({ "auth_time": NOW - MAX_AGE + 5 })).await, NOW + 5);

    let token = EC.token(json!({}), &with(claims(), json!({ "exp": NOW + 10 })));
    let caller = verifier.verify(&token).await.unwrap();
    now.store(NOW + 10 + LEEWAY - 1, Ordering::SeqCst);
    assert!(verifier.still_holds(&caller));
    assert_eq!(meets(&verifier, &token).await, GOOD);
    now.store(NOW + 10 + LEEWAY, Ordering::SeqCst);
    assert!(!verifier.still_holds(&caller));
    assert_eq!(meets(&verifier, &token).await, EXPIRED, "remembered tokens expire like others");
}

#[tokio::test]
async fn a_token_without_a_tenant_or_a_user_is_refused() {
    for (name, part) in [("tenant_id", "tenant"), ("sub", "user")] {
        let missing = format!("the token does not name a usable actor: the {part} is missing");
        check(json!({ name: null }), &missing).await;
        check(json!({ name: "" }), &missing).await;
        let long = format!("the token does not name a usable actor: the {part} is longer than 255 bytes");
        check(json!({ name: "x".repeat(256) }), &long).await;
        let odd = format!(
            "the token does not name a usable actor: the {part} has control characters or blanks around it"
        );
        for text in [" acme", "acme\n", "ac\u{0}me", "ac\u{85}me"] {
            check(json!({ name: text }), &odd).await;
        }
        for value in [json!(1.5), json!(1e2), json!({ "id": 1 }), json!(["acme"]), json!(true)] {
            check(
                json!({ name: value }),
                &format!("the token's claim for the {part} is not of a usable kind"),
            )
            .await;
        }
    }
}

#[tokio::test]
async fn integer_ids_become_decimal_strings() {
    check(json!({ "tenant_id": 42, "sub": -7 }), "42/-7/s1 [billing:read billing:refund]").await;
    check(json!({ "tenant_id": u64::MAX }), &format!("{}/u1/s1 [billing:read billing:refund]", u64::MAX))
        .await;
}

#[tokio::test]
async fn the_session_is_its_claim_or_the_tokens_id_or_none() {
    check(json!({ "jti": "t1" }), GOOD).await;
    check(json!({ "sid": null, "jti": "t1" }), "acme/u1/t1 [billing:read billing:refund]").await;
    check(json!({ "sid": null }), "acme/u1/- [billing:read billing:refund]").await;
    check(json!({ "sid": {} }), "the token's claim for the session is not of a usable kind").await;
}

#[tokio::test]
async fn scopes_come_as_a_string_or_as_an_array() {
    for scope in [
        json!("billing:read billing:refund"),
        json!("  billing:refund   billing:read "),
        json!(["billing:refund", "billing:read"]),
    ] {
        check(json!({ "scope": scope }), GOOD).await;
        check(json!({ "scope": null, "scp": scope }), GOOD).await;
    }
    check(json!({ "scope": "a", "scp": "b" }), "acme/u1/s1 [a]").await;
    check(json!({ "scope": null }), "acme/u1/s1 []").await;
    check(json!({ "scope": "" }), "acme/u1/s1 []").await;
    let bad = "the token does not name a usable actor: a scope is empty, or has a blank or another character that no scope has";
    for scope in [json!(["billing:read billing:refund"]), json!([""]), json!("a\tb"), json!(["a\"b"])] {
        check(json!({ "scope": scope }), bad).await;
    }
    for scope in [json!([1]), json!({ "a": true }), json!(7)] {
        check(json!({ "scope": scope }), "the token's claim for the scopes is not of a usable kind").await;
    }
}

#[tokio::test]
async fn roles_bring_the_scopes_that_the_settings_give_them() {
    let roles = |roles: Value| json!({ "scope": null, "realm_access": { "roles": roles } });
    check(roles(json!("billing-ops")), GOOD).await;
    check(roles(json!(["mail", "unknown"])), "acme/u1/s1 [accounts:mail]").await;
    check(
        json!({ "realm_access": { "roles": ["mail"] } }),
        "acme/u1/s1 [accounts:mail billing:read billing:refund]",
    )
    .await;
    check(
        json!({ "scope": null, "realm_access.roles": ["mail"], "realm_access": { "roles": "billing-ops" } }),
        "acme/u1/s1 [accounts:mail]",
    )
    .await;
    check(roles(json!([1])), "the token's claim for the roles is not of a usable kind").await;
}

#[tokio::test]
async fn a_member_that_stands_twice_makes_a_token_ambiguous() {
    let verifier = verifier(KeySource::Hs256(SECRET.to_vec()));
    let good = claims().to_string();
    let header = r#"{"alg":"HS256"}"#;
    assert_eq!(meets(&verifier, &sign_with_secret(header, &good)).await, GOOD);
    for (header, claims) in [
        (header, good.replacen('{', r#"{"tenant_id":"evil","#, 1)),
        (header, good.replacen('{', r#"{"x":{"a":1,"a":2},"#, 1)),
        (header, good.replacen('{', r#"{"\u0073ub":"evil","#, 1)),
        (r#"{"alg":"HS256","alg":"HS256"}"#, good.clone()),
    ] {
        assert_eq!(meets(&verifier, &sign_with_secret(header, &claims)).await, MALFORMED, "{claims}");
    }
}

#[tokio::test]
async fn what_is_no_signed_token_is_refused() {
    let verifier = verifier(pem(&EC));
    let good = EC.token(json!({}), &claims());
    let [header, payload, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    for text in [
        String::new(),
        "opaque".to_owned(),
        "a.b".to_owned(),
        format!("{header}.{payload}"),
        format!("{good}.x.y"),
        format!("{header}=.{payload}.{signature}"),
        format!("{payload}.{payload}"),
        sign_with_secret("[]", "{}"),
        sign_with_secret(r#"{"alg":"ES256","kid":7}"#, "{}"),
        sign_with_secret(r#"{"alg":"ES256"}"#, "[]"),
    ] {
        assert_eq!(meets(&verifier, &text).await, MALFORMED, "{text}");
    }
    for text in [
        format!("{header}.{payload}."),
        format!("{good}A"),
        format!("{good}="),
        format!("{header}.{payload}.{payload}"),
    ] {
        assert_eq!(meets(&verifier, &text).await, SIGNATURE, "{text}");
    }
    let long = EC.token(json!({}), &with(claims(), json!({ "x": "x".repeat(8192) })));
    assert_eq!(meets(&verifier, &long).await, "the token is longer than 8192 bytes");
}

#[tokio::test]
async fn no_algorithm_but_the_keys_own_is_taken() {
    let unsigned = |alg: &str| {
        let token = sign_with_secret(&json!({ "alg": alg }).to_string(), &claims().to_string());
        format!("{}.", token.rsplit_once('.').unwrap().0)
    };
    for source in [pem(&RSA), pem(&EC), KeySource::Hs256(SECRET.to_vec())] {
        let verifier = verifier(source);
        for alg in ["none", "None", "", "HS384", "RS512", "PS256", "ES384", "hs256"] {
            assert_eq!(meets(&verifier, &unsigned(alg)).await, ALGORITHM, "{alg}");
        }
    }
    // The public key's own bytes as an HMAC secret: in PEM, and without its frame.
    for signer in [&*RSA, &*EC] {
        let verifier = verifier(pem(signer));
        let body: String = signer.public_pem.lines().filter(|line| !line.starts_with('-')).collect();
        let forged = [
            EncodingKey::from_secret(signer.public_pem.as_bytes()).unwrap(),
            EncodingKey::from_base64_secret(&body).unwrap(),
        ];
        for key in forged {
            for header in [json!({ "alg": "HS256" }), json!({ "alg": signer.algorithm })] {
                let token = sign(&header.to_string(), &claims().to_string(), &key, Algorithm::HS256);
                let met = meets(&verifier, &token).await;
                assert!([ALGORITHM, SIGNATURE].contains(&met.as_str()), "{met}");
            }
        }
    }
    assert_eq!(
        meets(&verifier(KeySource::Hs256(SECRET.to_vec())), &EC.token(json!({}), &claims())).await,
        ALGORITHM
    );
    assert_eq!(meets(&verifier(pem(&RSA)), &EC.token(json!({}), &claims())).await, ALGORITHM);
}

#[tokio::test]
async fn a_token_may_not_bring_its_key_or_its_own_rules() {
    let verifier = verifier(pem(&EC));
    let own = "the token names a key of its own";
    let critical = "the token has critical header parameters that are not supported";
    for (header, expected) in [
        (json!({ "jwk": EC.jwk(json!({})) }), own),
        (json!({ "jku": "https://id.example.com/keys" }), own),
        (json!({ "x5u": "https://id.example.com/cert" }), own),
        (json!({ "x5c": ["MII="] }), own),
        (json!({ "crit": ["b64"], "b64": true }), critical),
        (json!({ "crit": ["exp"] }), critical),
        (json!({ "crit": [] }), critical),
        (json!({ "b64": false }), critical),
        (json!({ "typ": "at+jwt", "kid": "any", "x5t": "abc" }), GOOD),
    ] {
        assert_eq!(meets(&verifier, &EC.token(header.clone(), &claims())).await, expected, "{header}");
    }
}

#[test]
fn settings_that_would_let_everyone_in_are_refused() {
    let check = |change: fn(&mut Settings), expected: &str| {
        let mut changed = settings(KeySource::Hs256(SECRET.to_vec()));
        change(&mut changed);
        let fault: AuthSetupFault = Verifier::new(changed).err().unwrap();
        assert_eq!(fault.to_string(), expected);
    };
    check(|settings| settings.issuer.clear(), "the issuer is empty");
    check(|settings| settings.audiences.clear(), "there is no audience, or an empty one");
    check(|settings| settings.audiences.push(String::new()), "there is no audience, or an empty one");
    check(
        |settings| settings.keys = KeySource::Hs256(vec![7; 31]),
        "the HS256 secret has fewer than 32 bytes",
    );
    check(
        |settings| settings.roles = BTreeMap::from([("ops".to_owned(), vec!["a b".to_owned()])]),
        "the role `ops` names a scope that is empty or has a blank, a quote or a control character",
    );
}
