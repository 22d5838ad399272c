//! Bodies that are looked through while they pass.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use oncegate::domain::refusal::Refusal;
use oncegate::http::multipart::Boundary;
use oncegate::http::scanned::{ScanFault, Scanned, Tenancy};

/// A body that comes in these pieces.
struct Pieces(VecDeque<Frame<Bytes>>);

impl Pieces {
    fn of(body: &[u8], ends: &[usize]) -> Self {
        let mut at = 0;
        let mut pieces = VecDeque::new();
        for end in ends.iter().copied().chain([body.len()]) {
            let end = end.clamp(at, body.len());
            pieces.push_back(Frame::data(Bytes::copy_from_slice(&body[at..end])));
            at = end;
        }
        Self(pieces)
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }

    fn size_hint(&self) -> SizeHint {
        let data = self.0.iter().filter_map(Frame::data_ref);
        SizeHint::with_exact(data.map(|piece| piece.len() as u64).sum())
    }
}

fn boundary() -> Boundary {
    Boundary::new("b").expect("a boundary")
}

fn acme() -> Tenancy {
    Tenancy { names: vec!["tenant_id".to_owned()], tenant: "acme".to_owned() }
}

/// What passed of a body, and how it ended.
pub(super) struct Passed {
    pub(super) bytes: Vec<u8>,
    pub(super) fault: Option<ScanFault>,
    pub(super) refusal: Option<Refusal>,
}

pub(super) async fn pass(body: &[u8], ends: &[usize]) -> Passed {
    let mut scanned = Scanned::new(Pieces::of(body, ends), boundary(), acme());
    assert_eq!(scanned.size_hint().exact(), Some(body.len() as u64));
    let finding = scanned.finding();
    let mut passed = Passed { bytes: Vec::new(), fault: None, refusal: None };
    while let Some(frame) = scanned.frame().await {
        match frame {
            Ok(frame) => passed.bytes.extend(frame.into_data().expect("trailers do not pass")),
            Err(fault) => passed.fault = Some(fault),
        }
    }
    assert!(scanned.is_end_stream());
    passed.refusal = finding.refusal().cloned();
    passed
}

fn part(name: &str, content: &str) -> String {
    format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
}

#[track_caller]
fn check(passed: &Passed, body: &[u8], expected: &Refusal) {
    assert!(passed.bytes.len() < body.len(), "it never comes whole");
    assert!(body.starts_with(&passed.bytes));
    assert!(matches!(passed.fault, Some(ScanFault::Refused)), "{:?}", passed.fault);
    assert_eq!(passed.refusal.as_ref(), Some(expected));
}

#[tokio::test]
async fn a_body_passes_as_it_came() {
    let body = format!("{}{}--b--\r\n", part("a", "1"), part("tenant_id", "acme"));
    let every: Vec<usize> = (0..body.len()).collect();
    for ends in [&[][..], &[1], &[40, 41, 60], &every] {
        let passed = pass(body.as_bytes(), ends).await;
        assert_eq!(passed.bytes, body.as_bytes());
        assert!(passed.fault.is_none() && passed.refusal.is_none());
    }
}

#[tokio::test]
async fn a_method_is_found_wherever_the_pieces_are_cut_and_its_name_has_not_passed() {
    let before = part("a", "1");
    let body = format!("{before}{}--b--\r\n", part("_method", "DELETE"));
    for end in 0..body.len() {
        let passed = pass(body.as_bytes(), &[end]).await;
        check(&passed, body.as_bytes(), &Refusal::MethodOverride);
        assert!(!String::from_utf8_lossy(&passed.bytes).contains("_method\"\r\n"), "cut at {end}");
    }
    let every: Vec<usize> = (0..body.len()).collect();
    let passed = pass(body.as_bytes(), &every).await;
    check(&passed, body.as_bytes(), &Refusal::MethodOverride);
    assert!(!String::from_utf8_lossy(&passed.bytes).contains("_method\"\r\n"), "cut everywhere");
}

#[tokio::test]
async fn a_foreign_tenant_is_found_wherever_the_pieces_are_cut() {
    for tenant in ["globex", "acme2", "acm", "", " acme", "acme\0"] {
        let body = format!("{}{}--b--\r\n", part("a", "1"), part("tenant.id", tenant));
        let begins = part("a", "1").len() + part("tenant.id", "").len() - 2;
        let every: Vec<usize> = (0..body.len()).collect();
        for ends in every.iter().map(std::slice::from_ref).chain([every.as_slice()]) {
            let passed = pass(body.as_bytes(), ends).await;
            check(&passed, body.as_bytes(), &Refusal::ForeignTenant);
            // `acm` may be a tenant too, to a backend that runs what it has of a body that was cut.
            assert!(passed.bytes.len() <= begins, "{ends:?}: {}", String::from_utf8_lossy(&passed.bytes));
        }
    }
}

#[tokio::test]
async fn what_is_no_multipart_never_comes_whole() {
    let cut = Refusal::BodyUnreadable { detail: "it ends before its last boundary".to_owned() };
    let before = Refusal::BodyUnreadable { detail: "it does not begin with its boundary".to_owned() };
    let behind = Refusal::BodyUnreadable { detail: "something follows its last boundary".to_owned() };
    for (body, expected) in [
        (part("a", "1"), &cut),
        (format!("{}--b", part("a", "1")), &cut),
        (format!("{}--b--\r", part("a", "1")), &behind),
        (format!("{}--b--\r\nx", part("a", "1")), &behind),
        ("_method=DELETE".to_owned(), &before),
    ] {
        for end in 0..body.len() {
            check(&pass(body.as_bytes(), &[end]).await, body.as_bytes(), expected);
        }
    }
}

#[tokio::test]
async fn trailers_stay_and_an_empty_body_is_none() {
    let body = format!("{}--b--\r\n", part("a", "1"));
    let mut pieces = Pieces::of(body.as_bytes(), &[10]);
    pieces.0.push_back(Frame::trailers(HeaderMap::new()));
    let collected = Scanned::new(pieces, boundary(), acme()).collect().await.expect("it passes");
    assert!(collected.trailers().is_none());
    assert_eq!(collected.to_bytes(), body);
    let passed = pass(b"", &[]).await;
    assert!(passed.bytes.is_empty() && passed.fault.is_none());
    let never = http_body_util::Empty::<Bytes>::new();
    assert!(Scanned::new(never, boundary(), acme()).is_end_stream());
}

#[tokio::test]
async fn a_body_that_breaks_off_never_comes_whole() {
    let body = format!("{}--b--\r\n", part("a", "1"));
    let frames = [Ok(Frame::data(Bytes::from(body.clone()))), Err(std::io::Error::other("gone"))];
    let broken = http_body_util::StreamBody::new(futures_util::stream::iter(frames));
    let mut scanned = Scanned::new(broken, boundary(), acme());
    let first = scanned.frame().await.expect("an end");
    assert!(matches!(first, Err(ScanFault::Cut(_))));
    assert!(scanned.frame().await.is_none());
    assert!(scanned.finding().refusal().is_none());
}
