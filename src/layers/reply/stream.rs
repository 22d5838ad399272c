//! An answer that comes in pieces, as the body of an event stream.
//!
//! Promises: each event goes out as it comes; while nothing comes a comment flows every [`KEEP_ALIVE_EVERY`], the first one
//! at once where the stream was opened only to wait; the end of a call is its JSON-RPC response, as the one table says it.
//! Nothing is read ahead of the client, and a client that goes, or reads no more, takes the body with it: what must finish
//! runs elsewhere.
//!
//! Absent on purpose: event ids of the gate's own. One SDK would come back for what it has.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Answering, Desk, stalled};
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::refusal::Refusal;
use crate::layers::words::{Word, Words};
use crate::layers::{Answer, Asked};
use crate::mcp::sse::{Event, KEEP_ALIVE};
use crate::wire::envelope::{AnyError, Body};
use crate::wire::render;

/// How long a stream may be silent.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// What a stream is waiting for.
enum Awaited {
    /// Its call's end.
    Answer(Pin<Box<dyn Future<Output = Next> + Send>>),
    /// The next word.
    Words(Words),
    /// More bytes of an answer that is a stream already.
    Rest(Body),
    /// Nothing.
    Nothing,
}

/// What came of waiting.
enum Next {
    /// The last event.
    Last(Bytes),
    /// Words.
    Words(Words),
    /// An answer that is a stream already.
    Rest(Body),
}

struct Stream {
    desk: Arc<Desk>,
    asked: Asked,
    awaited: Awaited,
    /// Whether a comment is due at once.
    opens: bool,
    /// Whether its client only listens.
    listens: bool,
    /// What the event that was taken last holds, until the next one is wanted.
    held: Option<OwnedSemaphorePermit>,
}

/// The body of a stream that was opened before its call has ended.
pub(super) fn body(desk: Arc<Desk>, asked: Asked, answering: Answering) -> Body {
    let awaited = Awaited::Answer(Box::pin(answered(Arc::clone(&desk), asked.clone(), answering)));
    boxed(Stream { desk, asked, awaited, opens: true, listens: false, held: None })
}

/// The body of a stream of these words.
pub(super) fn of(desk: Arc<Desk>, asked: Asked, words: Words) -> Body {
    let listens = !is_call(&asked);
    // Whoever only listens may do so for hours.
    if listens {
        asked.only_listen();
    }
    boxed(Stream { desk, asked, awaited: Awaited::Words(words), opens: false, listens, held: None })
}

/// Whether the stream answers a call, which runs to its end.
pub(super) fn is_call(asked: &Asked) -> bool {
    asked.envelope().is_some_and(|envelope| envelope.is_tool_call)
}

/// The same body, ended early when this is cancelled.
pub(super) fn until(stopping: CancellationToken, body: Body) -> Body {
    let frames = unfold((stopping, body), async |(stopping, mut body)| {
        let frame = tokio::select! {
            frame = body.frame() => frame?,
            () = stopping.cancelled() => return None,
        };
        Some((frame, (stopping, body)))
    });
    stalled::watched(StreamBody::new(Box::pin(frames)).boxed_unsync())
}

fn boxed(stream: Stream) -> Body {
    let frames = unfold(stream, async |mut stream| {
        let bytes = stream.next().await?;
        Some((Ok::<_, AnyError>(Frame::data(bytes)), stream))
    });
    StreamBody::new(Box::pin(frames)).boxed_unsync()
}

impl Stream {
    /// The next bytes.
    async fn next(&mut self) -> Option<Bytes> {
        self.held = None;
        if std::mem::take(&mut self.opens) {
            return Some(Bytes::from_static(KEEP_ALIVE));
        }
        let (stopping, listens) = (self.desk.stopping.clone(), self.listens);
        tokio::select! {
            biased;
            bytes = self.piece() => bytes,
            () = stopping.cancelled(), if listens => None,
            () = sleep(KEEP_ALIVE_EVERY) => Some(Bytes::from_static(KEEP_ALIVE)),
        }
    }

    /// The next piece of the answer.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: whatever is awaited stays in `awaited`.
    async fn piece(&mut self) -> Option<Bytes> {
        loop {
            let next = match &mut self.awaited {
                Awaited::Nothing => return None,
                Awaited::Rest(body) => match body.frame().await?.ok()?.into_data() {
                    Ok(bytes) => return Some(bytes),
                    Err(_trailers) => continue,
                },
                Awaited::Answer(ending) => ending.await,
                Awaited::Words(words) => match words.next().await {
                    Some(Word::Event(event)) => {
                        let (bytes, held) = *event;
                        self.held = held;
                        return Some(bytes);
                    }
                    Some(Word::End(verdict)) => {
                        let answering: Answering = Box::pin(std::future::ready(*verdict));
                        let ending = answered(Arc::clone(&self.desk), self.asked.clone(), answering);
                        self.awaited = Awaited::Answer(Box::pin(ending));
                        continue;
                    }
                    Some(Word::Elsewhere) | None => {
                        self.awaited = Awaited::Nothing;
                        continue;
                    }
                },
            };
            self.awaited = match next {
                Next::Last(bytes) => {
                    self.awaited = Awaited::Nothing;
                    return Some(bytes);
                }
                Next::Words(words) => Awaited::Words(words),
                Next::Rest(body) => Awaited::Rest(body),
            };
        }
    }
}

/// Waits for the end, and writes it.
async fn answered(desk: Arc<Desk>, asked: Asked, answering: Answering) -> Next {
    let message = match answering.await {
        Ok(Answer::Spoken(spoken)) => return Next::Words(spoken.words),
        Ok(Answer::Passed(response)) if is_stream(&response) => return Next::Rest(response.into_body()),
        Ok(Answer::Claimed { kept, marks, beside: _ }) => {
            render::answer_message(&kept, &marks, asked.envelope())
        }
        Ok(Answer::Passed(response)) => match message_in(response).await {
            Some(message) => message,
            None => refused(&desk, &asked, &Refusal::ReadFailed).await,
        },
        // Nothing that wants no answer is kept waiting.
        Ok(Answer::Accepted) => refused(&desk, &asked, &Refusal::Internal).await,
        Err(refusal) => refused(&desk, &asked, &refusal).await,
    };
    asked.answered(None);
    let text = String::from_utf8_lossy(&message.to_bytes()).into_owned();
    Next::Last(Event::message(text).encode().into())
}

async fn refused(desk: &Desk, asked: &Asked, refusal: &Refusal) -> Json {
    render::refusal_message(&desk.refuse(refusal, asked).await, asked.envelope())
}

pub(super) fn is_stream(response: &Response<Body>) -> bool {
    response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

/// The message in a response that is whole.
async fn message_in(response: Response<Body>) -> Option<Json> {
    let bytes = response.into_body().collect().await.ok()?.to_bytes();
    Json::parse(&bytes, MAX_DEPTH).ok()
}
