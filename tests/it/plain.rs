//! Plain requests as the gate reads them, and as somebody writes them who wants a backend to read something else.
//!
//! Promises: every trick stands here as a request that is refused, or whose two readings are known to be one.

mod bodies;
mod media;
mod multipart;
mod names;
mod php;
mod properties;
mod scanned;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use oncegate::domain::refusal::Refusal;
use oncegate::http::content::Content;

const FORM: &str = "application/x-www-form-urlencoded";

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        let name: HeaderName = name.parse().expect("a header's name");
        (name, HeaderValue::from_bytes(value.as_bytes()).expect("a header's value"))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.iter().map(pair) {
        headers.append(name, value);
    }
    headers
}

fn of_type(media: &str) -> HeaderMap {
    headers(&[(CONTENT_TYPE.as_str(), media)])
}

fn target(text: &str) -> PathAndQuery {
    text.parse().unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

fn read(media: &str, body: impl AsRef<[u8]>) -> Result<Content, Refusal> {
    Content::read(&of_type(media), Bytes::copy_from_slice(body.as_ref()))
}

#[track_caller]
fn accepted(media: &str, body: impl AsRef<[u8]>) -> Content {
    let text = String::from_utf8_lossy(body.as_ref()).into_owned();
    read(media, body).unwrap_or_else(|refusal| panic!("{media}: {text}: {refusal:?}"))
}

/// The word of a refusal, and what it says to the client.
fn word(refusal: &Refusal) -> String {
    if let Refusal::BodyUnreadable { detail } = refusal {
        return format!("unreadable: {detail}");
    }
    if let Refusal::UnsupportedMedia { detail } = refusal {
        return format!("unsupported: {detail}");
    }
    format!("{refusal:?}")
}

#[track_caller]
fn check(media: &str, body: impl AsRef<[u8]>, expected: &str) {
    let text = String::from_utf8_lossy(body.as_ref()).into_owned();
    let refusal = read(media, body).expect_err(&format!("{media}: {text}"));
    assert_eq!(word(&refusal), expected, "{media}: {text}");
}
