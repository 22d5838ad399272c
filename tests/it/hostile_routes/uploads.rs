//! Bodies that are too large to be held.

use bytes::{Bytes, BytesMut};

use super::{Scene, answers, head, scene, statuses, word};

const MEBIBYTE: usize = 1024 * 1024;

/// The most that the gate may grow by, whatever passes.
const MOST: u64 = 16 * 1024 * 1024;

/// A file of so many mebibytes in a form.
fn upload(mebibytes: usize) -> Bytes {
    let mut body =
        BytesMut::from("--b0undary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n");
    let mut random = fastrand::Rng::with_seed(64);
    let mut one = vec![0; MEBIBYTE];
    random.fill(&mut one);
    // What looks like the beginning of a boundary, everywhere.
    for at in (0..MEBIBYTE - 16).step_by(97) {
        one[at..at + 8].copy_from_slice(b"\r\n--b0un");
    }
    for _ in 0..mebibytes {
        body.extend_from_slice(&one);
    }
    body.extend_from_slice(b"\r\n--b0undary--\r\n");
    body.freeze()
}

const MEDIA: &str = "multipart/form-data; boundary=b0undary";

#[tokio::test]
async fn an_upload_of_any_size_streams_through_an_unclaimed_route() {
    let Scene { upstream, gate, client } = scene().await;
    let send = |media: &'static str, body: &Bytes| {
        client.plain("PUT /api/notes").header("Content-Type", media).body(body.clone()).send()
    };
    let small = upload(1);
    assert_eq!(send(MEDIA, &small).await.status(), 200);
    let before = gate.peak_memory();
    let large = upload(64);
    for media in [MEDIA, "application/octet-stream"] {
        assert_eq!(send(media, &large).await.status(), 200, "{media}");
        let last = upstream.received().pop().expect("it came");
        assert!(last.http.body == large, "{media}: {} bytes came, and others", last.http.body.len());
    }
    let grown = gate.peak_memory().saturating_sub(before);
    assert!(grown < MOST, "the gate grew by {grown} bytes");
}

#[tokio::test]
async fn a_claimed_upload_over_the_limit_is_refused_before_anything_is_sent() {
    let Scene { upstream, gate, client } = scene().await;
    let large = upload(2);
    let before = gate.peak_memory();
    for media in [MEDIA, "application/octet-stream", "text/plain"] {
        let ask =
            client.plain("PUT /api/notes").header("Content-Type", media).header("Idempotency-Key", "k1");
        let reply = ask.body(large.clone()).send().await;
        assert_eq!(word(&reply), (413, "body_too_large".to_owned()), "{media}");
    }
    // What is read whole because of what it might hold is bounded too, claimed or not.
    for media in ["application/json", "application/x-www-form-urlencoded"] {
        let reply =
            client.plain("PUT /api/notes").header("Content-Type", media).body(large.clone()).send().await;
        assert_eq!(word(&reply), (413, "body_too_large".to_owned()), "{media}");
    }
    // Without a length, it is found while it comes.
    let mut request = head(
        "PUT /api/notes",
        &[
            "Content-Type: text/plain",
            "Idempotency-Key: k2",
            "Transfer-Encoding: chunked",
            "Connection: close",
        ],
    )
    .into_bytes();
    request.extend(format!("{:x}\r\n", large.len()).bytes());
    request.extend(&large);
    request.extend(b"\r\n0\r\n\r\n");
    assert_eq!(statuses(&answers(gate.address(), &request).await), ["413"]);
    assert!(upstream.received().is_empty());
    assert_eq!(gate.claims().await.len(), 0);
    let grown = gate.peak_memory().saturating_sub(before);
    assert!(grown < MOST, "the gate grew by {grown} bytes");
}
