//! Where keys come from, and how they change under a running gate.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use base64::Engine as _;
use futures_util::future::join_all;
use oncegate::auth::{KeySource, Pace, Verifier};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::issuer::{
    EC, ED, KeyServer, Kind, NOW, RSA, SECRET, Signer, claims, jwks, sign_with_secret, with,
};
use super::{ALGORITHM, EAGER, GOOD, SIGNATURE, UNKNOWN_KEY, meets, pem, settings, verifier, verifier_at};

const UNAVAILABLE: &str = "the keys that tokens are checked with are not available";

struct File {
    _dir: TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, text).unwrap();
        Self { _dir: dir, path }
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    fn source(&self) -> KeySource {
        KeySource::JwksFile(self.path.clone())
    }
}

fn all_three() -> String {
    jwks(&[RSA.jwk(json!({ "kid": "r" })), EC.jwk(json!({ "kid": "e" })), ED.jwk(json!({ "kid": "d" }))])
}

fn good(signer: &Signer, kid: &str) -> String {
    signer.token(json!({ "kid": kid }), &claims())
}

/// A server of keys and a verifier that asks it.
async fn served(document: &str, pace: Pace) -> (KeyServer, Verifier) {
    let server = KeyServer::start(document).await;
    let ca = File::new(&server.ca_pem);
    let source = KeySource::JwksUrl { url: server.url.clone(), ca_file: Some(ca.path.clone()) };
    let verifier = verifier_at(source, pace, &Arc::new(AtomicI64::new(NOW)));
    (server, verifier)
}

#[tokio::test]
async fn every_algorithm_works_from_every_source_that_can_have_it() {
    let secret = verifier(KeySource::Hs256(SECRET.to_vec()));
    let token = sign_with_secret(r#"{"alg":"HS256","kid":"any"}"#, &claims().to_string());
    assert_eq!(meets(&secret, &token).await, GOOD);
    let file = File::new(&all_three());
    let from_file = verifier(file.source());
    let (_server, from_url) = served(&all_three(), EAGER).await;
    for (signer, kid) in [(&*RSA, "r"), (&*EC, "e"), (&*ED, "d")] {
        let token = good(signer, kid);
        assert_eq!(meets(&verifier(pem(signer)), &token).await, GOOD, "{kid}, PEM");
        assert_eq!(meets(&from_file, &token).await, GOOD, "{kid}, file");
        assert_eq!(meets(&from_url, &token).await, GOOD, "{kid}, URL");
        assert_eq!(meets(&from_file, &signer.token(json!({}), &claims())).await, GOOD, "{kid}, unnamed");
        assert_eq!(meets(&from_file, &good(signer, "r2")).await, UNKNOWN_KEY);
        let (signed, _) = token.rsplit_once('.').unwrap();
        let (_, other) = token.split_once('.').unwrap().1.rsplit_once('.').unwrap();
        let cut = format!("{signed}.{}", &other[..other.len() - 4]);
        assert_eq!(meets(&from_file, &cut).await, SIGNATURE, "{kid}, cut");
        // Genuine, but for another algorithm's name in its header.
        let other = if kid == "e" { "RS256" } else { "ES256" };
        let mislabelled = signer.token(json!({ "kid": kid, "alg": other }), &claims());
        assert_eq!(meets(&from_file, &mislabelled).await, UNKNOWN_KEY, "{kid}, {other}");
    }
}

#[test]
fn a_pem_must_be_one_public_key_of_a_known_type() {
    let check = |pem: &str, expected: &str| {
        let fault = Verifier::new(settings(KeySource::Pem(pem.as_bytes().to_vec()))).err().unwrap();
        assert_eq!(fault.to_string(), "the keys that tokens are checked with cannot be used");
        assert!(
            fault.source().unwrap().to_string().starts_with(expected),
            "{pem}: {}",
            fault.source().unwrap()
        );
    };
    let not_pem = "expected one public key in PEM";
    check("", not_pem);
    check("secret", not_pem);
    check(&EC.public_pem.replace("PUBLIC KEY", "CERTIFICATE"), not_pem);
    check(&rcgen::KeyPair::generate().unwrap().serialize_pem(), not_pem);
    check(&format!("{}{}", EC.public_pem, RSA.public_pem), not_pem);
    check(&EC.public_pem.replace("PUBLIC KEY", "RSA PUBLIC KEY"), "the public key is neither");
    check(&Signer::new(Kind::P384).public_pem, "the public key is neither");
}

#[tokio::test]
async fn a_jwk_is_used_only_for_what_it_says() {
    let check = async |change: Value, expected: &str| {
        let file = File::new(&jwks(&[
            RSA.jwk(json!({ "kid": "r" })),
            EC.jwk(with(json!({ "kid": "e" }), change.clone())),
        ]));
        assert_eq!(meets(&verifier(file.source()), &good(&EC, "e")).await, expected, "{change}");
    };
    for change in [
        json!({ "alg": "ES256" }),
        json!({ "use": "sig" }),
        json!({ "key_ops": ["sign", "verify"] }),
        json!({ "x5t": "abc", "exp": 1 }),
    ] {
        check(change, GOOD).await;
    }
    for change in [
        json!({ "alg": "ES384" }),
        json!({ "alg": "RS256" }),
        json!({ "alg": 1 }),
        json!({ "use": "enc" }),
        json!({ "key_ops": ["encrypt"] }),
        json!({ "key_ops": [] }),
        json!({ "kid": 7 }),
        json!({ "kty": "XYZ" }),
        json!({ "crv": "P-384" }),
        json!({ "crv": "secp256k1" }),
        json!({ "x": "AAAA" }),
        json!({ "y": "!" }),
    ] {
        check(change, UNKNOWN_KEY).await;
    }
    // An RSA key that is too short is no key at all.
    let n = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode([0xd3; 255]);
    let file = File::new(&jwks(&[EC.jwk(json!({})), RSA.jwk(json!({ "kid": "short", "n": n }))]));
    assert_eq!(meets(&verifier(file.source()), &good(&RSA, "short")).await, UNKNOWN_KEY);
    // A symmetric key in a document that anybody may read is no secret.
    let k = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(SECRET);
    let file = File::new(&jwks(&[RSA.jwk(json!({})), json!({ "kty": "oct", "k": k })]));
    let forged = sign_with_secret(r#"{"alg":"HS256"}"#, &claims().to_string());
    assert_eq!(meets(&verifier(file.source()), &forged).await, ALGORITHM);
}

#[test]
fn a_jwks_file_must_have_a_usable_key_when_the_gate_starts() {
    let check = |text: &str, expected: &str| {
        let file = File::new(text);
        let fault = Verifier::new(settings(file.source())).err().unwrap();
        assert!(fault.source().unwrap().to_string().starts_with(expected), "{}", fault.source().unwrap());
    };
    check("", "expected a JWKS document");
    check("[]", "expected a JWKS document");
    check(r#"{"keys":{}}"#, "expected a JWKS document");
    check(r#"{"keys":[],"keys":[]}"#, "expected a JWKS document");
    check(r#"{"keys":[]}"#, "the JWKS document has no key");
    check(&jwks(&vec![EC.jwk(json!({})); 65]), "the JWKS document has more than 64 keys");
    let missing = Verifier::new(settings(KeySource::JwksFile("/nowhere/jwks.json".into()))).err().unwrap();
    assert_eq!(missing.source().unwrap().to_string(), "/nowhere/jwks.json cannot be read");
}

#[test]
fn keys_are_never_fetched_over_an_open_connection() {
    for url in ["http://localhost/keys", "localhost", "ftp://x/y", "https://", "", "/keys"] {
        let source = KeySource::JwksUrl { url: url.to_owned(), ca_file: None };
        let fault = Verifier::new(settings(source)).err().unwrap();
        assert_eq!(fault.source().unwrap().to_string(), "the JWKS URL must be an https URL", "{url}");
    }
    let empty = File::new("no certificate here");
    let source =
        KeySource::JwksUrl { url: "https://localhost/".to_owned(), ca_file: Some(empty.path.clone()) };
    let fault = Verifier::new(settings(source)).err().unwrap();
    assert_eq!(fault.source().unwrap().to_string(), "no usable certificate authorities");
}

#[tokio::test]
async fn a_new_key_is_found_and_so_is_a_new_key_under_an_old_name() {
    let file = File::new(&jwks(&[EC.jwk(json!({ "kid": "1" }))]));
    let (server, from_url) = served(&jwks(&[EC.jwk(json!({ "kid": "1" }))]), EAGER).await;
    let from_file = verifier(file.source());
    let other = Signer::new(Kind::P256);
    let show = |document: String| {
        file.write(&document);
        server.show(&document);
    };
    for verifier in [&from_file, &from_url] {
        show(jwks(&[EC.jwk(json!({ "kid": "1" }))]));
        assert_eq!(meets(verifier, &good(&EC, "1")).await, GOOD);
        assert_eq!(meets(verifier, &good(&ED, "2")).await, UNKNOWN_KEY);
        show(jwks(&[EC.jwk(json!({ "kid": "1" })), ED.jwk(json!({ "kid": "2" }))]));
        assert_eq!(meets(verifier, &good(&ED, "2")).await, GOOD);
        assert_eq!(meets(verifier, &good(&EC, "1")).await, GOOD);

        assert_eq!(meets(verifier, &good(&other, "1")).await, SIGNATURE);
        show(jwks(&[other.jwk(json!({ "kid": "1" }))]));
        assert_eq!(meets(verifier, &good(&other, "1")).await, GOOD);
        assert_eq!(meets(verifier, &good(&EC, "1")).await, SIGNATURE, "remembered tokens go with their key");
        assert_eq!(
            meets(verifier, &good(&ED, "2")).await,
            UNKNOWN_KEY,
            "remembered tokens go with their key"
        );
    }
}

#[tokio::test]
async fn keys_that_cannot_be_read_any_more_stay_as_they_were() {
    let document = jwks(&[EC.jwk(json!({ "kid": "1" }))]);
    let (server, verifier) = served(&document, EAGER).await;
    assert_eq!(meets(&verifier, &good(&EC, "1")).await, GOOD);
    let elsewhere = KeyServer::start(&jwks(&[ED.jwk(json!({ "kid": "2" }))])).await;
    let location = format!("location: {}", elsewhere.url);
    let big = format!("{}{}", " ".repeat(300 * 1024), jwks(&[ED.jwk(json!({ "kid": "2" }))]));
    for (status, headers, body) in [
        ("500 Oops", vec![], String::new()),
        ("302 Found", vec![location], String::new()),
        ("200 OK", vec![], "<html>".to_owned()),
        ("200 OK", vec![], big),
        ("204 No Content", vec![], String::new()),
    ] {
        server.answer(status, &headers, &body);
        assert_eq!(meets(&verifier, &good(&ED, "2")).await, UNAVAILABLE, "{status}");
        let fresh = EC.token(json!({ "kid": "1" }), &with(claims(), json!({ "jti": body.len() })));
        assert_eq!(meets(&verifier, &fresh).await, GOOD, "{status}");
    }
    assert_eq!(elsewhere.asked(), 0, "no redirect is followed");
    drop(server);
    assert_eq!(meets(&verifier, &good(&ED, "2")).await, UNAVAILABLE);
    assert_eq!(meets(&verifier, &good(&EC, "1")).await, GOOD);
}

#[tokio::test]
async fn a_key_server_that_was_never_there_is_not_the_callers_fault() {
    let source = KeySource::JwksUrl { url: "https://localhost:1/keys".to_owned(), ca_file: None };
    assert_eq!(meets(&verifier(source), &good(&EC, "1")).await, UNAVAILABLE);

    let server = KeyServer::start(&all_three()).await;
    let stranger = File::new(&KeyServer::start("").await.ca_pem);
    let source = KeySource::JwksUrl { url: server.url.clone(), ca_file: Some(stranger.path.clone()) };
    assert_eq!(
        meets(&verifier(source), &good(&EC, "e")).await,
        UNAVAILABLE,
        "another authority's certificate"
    );

    let (server, verifier) = served(&all_three(), Pace { timeout: Duration::from_millis(50), ..EAGER }).await;
    server.hold();
    assert_eq!(meets(&verifier, &good(&EC, "e")).await, UNAVAILABLE, "too slow");
}

#[tokio::test]
async fn unknown_keys_do_not_make_the_gate_hammer_the_key_server() {
    let pace = Pace { on_miss: Duration::from_hours(1), ..EAGER };
    let (server, verifier) = served(&all_three(), pace).await;
    assert_eq!(meets(&verifier, &good(&EC, "e")).await, GOOD);
    for kid in 0..20 {
        assert_eq!(meets(&verifier, &good(&EC, &kid.to_string())).await, UNKNOWN_KEY);
    }
    assert_eq!(server.asked(), 1);
    // Nor do tokens that no key could make good.
    let expired = EC.token(json!({ "kid": "new" }), &with(claims(), json!({ "exp": NOW - 100 })));
    let (server, verifier) = served(&all_three(), EAGER).await;
    assert_eq!(meets(&verifier, &expired).await, super::EXPIRED);
    let forged = sign_with_secret(r#"{"alg":"HS256"}"#, &claims().to_string());
    assert_eq!(meets(&verifier, &forged).await, ALGORITHM);
    assert_eq!(server.asked(), 0);
}

#[tokio::test]
async fn callers_who_wait_at_one_time_share_one_fetch() {
    let (server, verifier) = served(&all_three(), EAGER).await;
    server.hold();
    let (token, gone) = (good(&EC, "e"), good(&ED, "d"));
    // The first caller hangs up while the fetch runs; the others are no worse off.
    {
        let first = std::pin::pin!(meets(&verifier, &gone));
        let begun = async {
            while server.asked() == 0 {
                tokio::task::yield_now().await;
            }
        };
        futures_util::future::select(first, std::pin::pin!(begun)).await;
    }
    let callers = join_all((0..20).map(|_| meets(&verifier, &token)));
    // Every caller is polled, and so waits, before the answer is let go.
    let (met, ()) = tokio::join!(callers, async { server.release() });
    assert!(met.iter().all(|met| met == GOOD), "{met:?}");
    assert_eq!(server.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_key_is_noticed_without_anybody_asking() {
    let file = File::new(&all_three());
    let pace = Pace { refresh: Duration::from_secs(5), ..EAGER };
    let verifier = verifier_at(file.source(), pace, &Arc::new(AtomicI64::new(NOW)));
    let watch = tokio::spawn(verifier.keep_fresh());
    assert_eq!(meets(&verifier, &good(&EC, "e")).await, GOOD);
    // Time is the test's: it passes at once.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(meets(&verifier, &good(&EC, "e")).await, GOOD);
    file.write(&jwks(&[]));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(meets(&verifier, &good(&EC, "e")).await, UNKNOWN_KEY);
    watch.abort();
}

#[tokio::test]
async fn keys_are_fetched_before_the_first_caller_comes() {
    let (server, verifier) = served(&all_three(), Pace { on_miss: Duration::from_hours(1), ..EAGER }).await;
    let watch = tokio::spawn(verifier.keep_fresh());
    crate::harness::eventually("the first fetch", async || (server.asked() == 1).then_some(())).await;
    assert_eq!(meets(&verifier, &good(&EC, "e")).await, GOOD);
    assert_eq!(server.asked(), 1);
    watch.abort();
}
