//! What clients are told about tokens, and the tokens that the gate itself makes.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use oncegate::auth::{Bearer, Clock, KeySource, Resource, Verifier, bearer, issue};
use serde_json::json;

use super::issuer::{NOW, SECRET};
use super::{EAGER, meets, pem, settings};

#[test]
fn the_metadata_document_stands_between_the_host_and_the_resources_path() {
    let check = |url: &str, metadata_url: &str, metadata_path: &str| {
        let resource = Resource::new(url).unwrap();
        assert_eq!(resource.metadata_url(), metadata_url);
        assert_eq!(resource.metadata_path(), metadata_path);
        assert_eq!(resource.url(), url);
    };
    let well_known = "/.well-known/oauth-protected-resource";
    check("https://a.example", &format!("https://a.example{well_known}"), well_known);
    check("https://a.example/", &format!("https://a.example{well_known}"), well_known);
    let with_path = format!("{well_known}/public/mcp");
    check("https://a.example:8443/public/mcp", &format!("https://a.example:8443{with_path}"), &with_path);
    check("https://a.example/public/mcp?x=1", &format!("https://a.example{with_path}?x=1"), &with_path);
    check("https://a.example/?x=1", &format!("https://a.example{well_known}?x=1"), well_known);
    check(
        "http://127.0.0.1:8080/mcp",
        &format!("http://127.0.0.1:8080{well_known}/mcp"),
        &format!("{well_known}/mcp"),
    );
    for url in [
        "",
        "/mcp",
        "a.example/mcp",
        "ftp://a.example/",
        "https://u@a.example/",
        "https://a.example/#x",
        "https://a.example/\"x",
    ] {
        assert!(Resource::new(url).is_err(), "{url}");
    }
}

#[test]
fn the_metadata_document_names_the_gate_and_its_authorization_servers() {
    let resource = Resource::new("https://api.example.com/mcp").unwrap();
    let document =
        resource.metadata(&["https://id.example.com".to_owned()], ["billing:read", "billing:refund"]);
    let expected = json!({
        "resource": "https://api.example.com/mcp",
        "authorization_servers": ["https://id.example.com"],
        "scopes_supported": ["billing:read", "billing:refund"],
        "bearer_methods_supported": ["header"],
    });
    assert_eq!(document, expected);
}

#[test]
fn challenges_name_the_metadata_document_and_the_scopes() {
    let resource = Resource::new("https://api.example.com/mcp").unwrap();
    let metadata = r#"resource_metadata="https://api.example.com/.well-known/oauth-protected-resource/mcp""#;
    assert_eq!(resource.unauthorized(["a", "b"], None), &format!(r#"Bearer {metadata}, scope="a b""#));
    assert_eq!(resource.unauthorized([], None), &format!("Bearer {metadata}"));
    assert_eq!(
        resource.unauthorized(["a"], Some("the token has \"expired\"\r\n")),
        &format!(
            r#"Bearer error="invalid_token", error_description="the token has expired", {metadata}, scope="a""#
        )
    );
    assert_eq!(
        resource.insufficient_scope(["a", "b"]),
        &format!(
            r#"Bearer error="insufficient_scope", error_description="the token lacks a scope that this call needs", {metadata}, scope="a b""#
        )
    );
}

#[test]
fn a_request_brings_one_bearer_token_or_none() {
    let check = |values: &[&str], expected: &str| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let met = bearer(&headers).map_or_else(|fault| fault.to_string(), str::to_owned);
        assert_eq!(met, expected, "{values:?}");
    };
    check(&["Bearer a.b.c"], "a.b.c");
    check(&["bEARER   a.b.c "], "a.b.c");
    check(&[], "there is no token");
    check(&["Bearer "], "there is no token");
    let not_one = "the Authorization header does not hold one bearer token";
    check(&["Bearer a.b.c", "Bearer a.b.c"], not_one);
    check(&["Basic dTpw"], not_one);
    check(&["Bearer"], not_one);
    check(&["a.b.c"], not_one);
    check(&["Bearer \u{e4}"], not_one);
}

#[tokio::test]
async fn a_development_token_is_one_that_the_gate_takes() {
    let mut settings = settings(KeySource::Hs256(SECRET.to_vec()));
    settings.claims.tenant = "https://example.com/tenant".to_owned();
    let ask = Bearer {
        tenant: "acme".to_owned(),
        user: "u1".to_owned(),
        session: Some("s1".to_owned()),
        scopes: vec!["billing:read".to_owned(), "billing:refund".to_owned()],
        ttl: Duration::from_hours(1),
    };
    let token = issue(&settings, &ask, NOW).unwrap();
    let verifier = Verifier::paced(settings, EAGER, Clock::telling(|| NOW)).unwrap();
    assert_eq!(meets(&verifier, &token).await, super::GOOD);
    let caller = verifier.verify(&token).await.unwrap();
    assert_eq!(caller.until(), NOW + 3600 + super::LEEWAY);
}

#[test]
fn no_development_token_is_made_with_somebody_elses_keys() {
    let settings = settings(pem(&super::issuer::EC));
    let ask = Bearer {
        tenant: "acme".to_owned(),
        user: "u1".to_owned(),
        session: None,
        scopes: Vec::new(),
        ttl: Duration::from_secs(1),
    };
    let fault = issue(&settings, &ask, NOW).err().unwrap();
    assert_eq!(fault.to_string(), "tokens can be made only where `auth.hs256_secret_file` is configured");
}
