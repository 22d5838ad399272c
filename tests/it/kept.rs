//! Kept answers: what goes into the ledger comes out of it, and looks to a client as it did the first time.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use oncegate::domain::answer::{Kept, Kind};
use oncegate::upstream::headers;
use oncegate::wire::envelope::{Body, Marks};
use oncegate::wire::plain;
use proptest::prelude::{Strategy, any, prop};
use proptest::{prop_assert_eq, prop_oneof, proptest};

fn kept(status: u16, headers: &[(&str, &str)], body: &'static [u8]) -> Kept {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Kept { kind: Kind::Plain, status, headers, body: Bytes::from_static(body) }
}

fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    map
}

/// A response's headers, sorted, and its body.
async fn seen(response: Response<Body>) -> (Vec<(String, String)>, Bytes) {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut headers: Vec<_> =
        response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    headers.sort();
    (headers, response.into_body().collect().await.expect("a whole body").to_bytes())
}

fn any_kept() -> impl Strategy<Value = Kept> {
    let kind = prop_oneof![
        proptest::prelude::Just(Kind::Result),
        proptest::prelude::Just(Kind::Error),
        proptest::prelude::Just(Kind::Plain)
    ];
    let headers = prop::collection::vec(("[a-z-]{1,12}", "[ -~é\n]{0,20}"), 0..4);
    let body = prop::collection::vec(any::<u8>(), 0..64);
    (kind, 100_u16..600, headers, body).prop_map(|(kind, status, headers, body)| Kept {
        kind,
        status,
        headers,
        body: body.into(),
    })
}

proptest! {
    #[test]
    fn what_the_ledger_gives_back_is_what_it_was_given_whatever_the_bytes_are(kept in any_kept()) {
        prop_assert_eq!(Kept::decode(&kept.encode()).expect("an answer"), kept);
    }
}

#[test]
fn of_the_upstreams_headers_only_those_are_kept_that_say_what_the_answer_is() {
    let upstream = map(&[
        ("content-type", "text/csv"),
        ("content-encoding", "gzip"),
        ("content-disposition", "attachment; filename=\"a.csv\""),
        ("etag", "\"1\""),
        ("link", "</a>; rel=next"),
        ("link", "</b>; rel=prev"),
        ("location", "/orders/1"),
        ("set-cookie", "a=b"),
        ("www-authenticate", "Bearer"),
        ("transfer-encoding", "chunked"),
        ("connection", "keep-alive"),
        ("content-length", "7"),
        ("idempotent-replayed", "true"),
        ("x-request-id", "7"),
        ("date", "Tue, 01 Dec 2026 11:00:00 GMT"),
    ]);
    let names = |kind| headers::kept(&upstream, kind).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let result = ["content-type", "etag", "link", "link", "location"];
    assert_eq!(names(Kind::Result), result);
    let mut plain = names(Kind::Plain);
    plain.sort();
    assert_eq!(
        plain,
        ["content-disposition", "content-encoding", "content-type", "etag", "link", "link", "location"]
    );
}

#[tokio::test]
async fn a_replay_has_the_kept_headers_and_bytes_and_its_marks() {
    let bytes = b"\x1f\x8b\x00\xff\n{}\n";
    let kept = kept(201, &[("content-encoding", "gzip"), ("link", "</a>"), ("link", "</b>")], bytes);
    let marks = Marks { replayed: true, not_recorded: true, possible_duplicate: Some("k 1".to_owned()) };
    let response = plain::answer(&kept, &marks, HeaderMap::new());
    assert_eq!(response.status(), 201);
    let (headers, body) = seen(response).await;
    let expected = [
        ("content-encoding", "gzip"),
        ("idempotent-replayed", "true"),
        ("link", "</a>"),
        ("link", "</b>"),
        ("oncegate-not-recorded", "true"),
        ("oncegate-possible-duplicate", "k 1"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(body, Bytes::from_static(bytes));
}

#[tokio::test]
async fn the_first_client_hears_the_upstreams_other_headers_too_and_none_twice() {
    let kept = kept(200, &[("content-type", "text/plain")], b"ok");
    let beside = map(&[("content-type", "text/plain"), ("x-request-id", "7")]);
    let (headers, _) = seen(plain::answer(&kept, &Marks::default(), beside)).await;
    let expected = [("content-type", "text/plain"), ("x-request-id", "7")];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn where_a_status_has_no_body_none_is_given_and_no_type_is_made_up() {
    for status in [204, 304] {
        let (headers, body) =
            seen(plain::answer(&kept(status, &[], b""), &Marks::default(), HeaderMap::new())).await;
        assert!(headers.is_empty() && body.is_empty(), "{status}: {headers:?}");
    }
}
