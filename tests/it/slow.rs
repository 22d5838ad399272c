//! Clients that read slowly, or not at all: what they may cost their call, and what they may hold.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use oncegate::layers::Answer;
use oncegate::layers::line::Line;
use oncegate::layers::reply::stalled::{PATIENCE, watched};
use oncegate::server::patient as connection;
use oncegate::server::patient::Patient;
use oncegate::wire::envelope::{AnyError, Body};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_reader_that_just_keeps_up_costs_its_call_a_bounded_time() {
    let (line, listener) = Line::open(true);
    let Answer::Spoken(mut spoken) = listener.stream() else { panic!("a stream") };
    let reading = tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(1900)).await;
            if spoken.words.next().await.is_none() {
                return;
            }
        }
    });
    let begun = Instant::now();
    for _ in 0..200 {
        // Each takes all the room that there is.
        line.pass(Bytes::from(vec![b'x'; 16 * 1024]), None).await;
        sleep(Duration::from_millis(100)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(26), "{:?} for 20 s of events", begun.elapsed());
    reading.abort();
}

/// A body that holds something while it is there.
fn holding(pieces: usize) -> (Body, Arc<()>) {
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    let pieces = futures_util::stream::iter(0..pieces).chain(futures_util::stream::pending());
    let frames = pieces.map(move |_| {
        let held_until_here = Arc::strong_count(&holds) > 0;
        Ok::<_, AnyError>(Frame::data(Bytes::from_static(if held_until_here { b"x" } else { b"" })))
    });
    (StreamBody::new(frames).boxed_unsync(), held)
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_reads_gives_back_what_it_holds() {
    let (body, held) = holding(2);
    let mut body = watched(body);
    assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
    sleep(PATIENCE / 2).await;
    assert_eq!(Arc::strong_count(&held), 2, "it may still be read");
    sleep(PATIENCE).await;
    assert_eq!(Arc::strong_count(&held), 1, "nobody reads it any more");
    assert!(body.frame().await.is_some_and(|frame| frame.is_err()), "the answer is not taken for whole");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_nothing_to_say_is_kept() {
    let (body, held) = holding(0);
    let mut body = watched(body);
    let waiting = tokio::spawn(async move { body.frame().await.is_some() });
    sleep(PATIENCE * 10).await;
    assert_eq!(Arc::strong_count(&held), 2, "its reader waits");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_of_its_answer_loses_its_connection() {
    let (near, mut far) = tokio::io::duplex(16);
    let mut near = Patient::new(near);
    let answering = tokio::spawn(async move {
        let answer = near.write_all(&[b'x'; 64]).await;
        (answer.map_err(|fault| fault.kind()), near)
    });
    // It reads, slowly.
    for _ in 0..2 {
        sleep(connection::PATIENCE / 2).await;
        far.read_exact(&mut [0; 8]).await.expect("it is written to");
    }
    assert!(!answering.is_finished());
    sleep(connection::PATIENCE * 2).await;
    let (answer, _near) = answering.await.expect("the answering task");
    assert_eq!(answer, Err(ErrorKind::TimedOut));
}
