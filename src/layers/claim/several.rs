//! The calls of one that runs others, one after the other.
//!
//! Promises: each goes the way of a call that was made directly; after the first error nothing more is run, as the outer
//! tool itself would do; the answer lists what each came to, a refusal among them. Where one of them changes something,
//! a caller that hangs up stops none of them.
//!
//! Absent on purpose: progress of the calls inside. Whoever waits is kept waiting by comments.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::Response;
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;
use tower::Service;
use tracing::{Instrument as _, Span};

use super::{Claim, Claimed, facts};
use crate::domain::answer::Kind;
use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::domain::refusal::Refusal;
use crate::layers::authorize::Several;
use crate::layers::forward::Forwarded;
use crate::layers::parse::Head;
use crate::layers::session::session_of;
use crate::layers::words::Word;
use crate::layers::{Answer, reply};
use crate::mcp::collect::MAX_ANSWER_BYTES;
use crate::mcp::judge::is_tool_error;
use crate::mcp::message::Era;
use crate::mcp::shell::{self, Came};
use crate::wire::envelope::Body;
use crate::wire::{self, render};

/// What is told of a call that has not come to its end.
const UNFINISHED: &str = "The tool asks for something before it goes on, or goes on later. It cannot do so inside of \
another tool's call.";

/// What one call came to.
enum End {
    /// A result, and whether it is the first call's, given again.
    Result(Object, bool),
    /// A JSON-RPC error, and whether it is.
    Error(Object, bool),
}

impl<S> Claim<S>
where
    S: Service<Claimed, Response = Forwarded, Error = Refusal> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    /// Runs them all, in a task of its own where they must not be stopped.
    pub(super) async fn several(self, head: Arc<Head>, several: Several) -> Result<Answer, Refusal> {
        if !several.mutates {
            return self.one_by_one(&head, several).await;
        }
        let (tell, told) = oneshot::channel();
        let tasks = self.clerk.tasks.clone();
        // All of them bear the outer call's id: a cancellation that means a read among them must not meet what comes next.
        let id = head.asked.envelope().and_then(|envelope| envelope.id.clone()).unwrap_or(Json::Null);
        let place = self.clerk.running.around_claimed(head.caller.actor(), session_of(&head), &id);
        let running = async move {
            let _place = place;
            let answer = self.one_by_one(&head, several).await;
            // Whoever hung up hears nothing.
            let _heard = tell.send(answer).is_ok();
        };
        tasks.spawn(running.instrument(Span::current()));
        told.await.unwrap_or(Err(Refusal::Internal))
    }

    async fn one_by_one(mut self, head: &Head, several: Several) -> Result<Answer, Refusal> {
        // What happens from here on is in the rows of the calls inside.
        head.asked.mark_audited();
        let modern = head.era == Era::Modern;
        let mut came: Vec<Came> = Vec::new();
        let mut all_replayed = true;
        for (tool, call) in several.calls {
            let asked = call.head.asked.clone();
            let facts = facts(&call.head);
            // The calls before it may have taken long.
            let allowed = match call.operation() {
                Some(operation) if !came.is_empty() => self.clerk.court.still_allows(&call.head, operation),
                _ => Ok(()),
            };
            let end = match allowed {
                Ok(()) => match self.call(call).await {
                    Ok(answer) => ended(answer).await,
                    Err(refusal) => Err(refusal),
                },
                Err(refusal) => Err(refusal),
            };
            let result = match end {
                Ok(End::Result(result, replayed)) => {
                    all_replayed &= replayed;
                    if shell::is_unfinished(&result) { shell::failed(UNFINISHED) } else { result }
                }
                // Alone it is the whole answer, and so is a refusal.
                Ok(End::Error(error, _)) if came.is_empty() => return Ok(whole(head, "error", error)),
                Ok(End::Error(error, replayed)) => {
                    all_replayed &= replayed;
                    shell::failed(&Json::Object(error).to_string())
                }
                Err(refusal) => {
                    let row = wire::row(&refusal);
                    if !asked.is_audited() {
                        let clerk = &self.clerk;
                        reply::write_down(&clerk.journal, &row, facts, &asked).await;
                    }
                    if came.is_empty() {
                        return Err(refusal);
                    }
                    all_replayed = false;
                    render::told(&row, head.era)
                }
            };
            let failed = is_tool_error(&result);
            came.push((tool, result));
            if failed {
                break;
            }
        }
        let mut result = shell::answer(&several.runs, came, modern);
        if all_replayed {
            render::mark_replayed(&mut result);
        }
        let mut answer = whole(head, "result", result);
        if let (true, Answer::Passed(response)) = (all_replayed, &mut answer) {
            response.headers_mut().insert(render::REPLAYED, render::YES);
        }
        Ok(answer)
    }
}

fn whole(head: &Head, member: &str, value: Object) -> Answer {
    let id = head.asked.envelope().and_then(|envelope| envelope.id.clone());
    Answer::Passed(render::respond(200, &render::rpc(id, member, Json::Object(value))))
}

/// What an answer says in the end.
async fn ended(mut answer: Answer) -> Result<End, Refusal> {
    loop {
        answer = match answer {
            Answer::Claimed { kept, marks, beside: _ } => {
                let json = Json::parse(&kept.body, MAX_DEPTH).unwrap_or(Json::Null);
                let Json::Object(mut value) = json else { return Err(Refusal::Internal) };
                return Ok(match kept.kind {
                    Kind::Result => {
                        render::mark(&mut value, &marks);
                        End::Result(value, marks.replayed)
                    }
                    Kind::Error => End::Error(value, marks.replayed),
                    // No plain request stands inside another call.
                    Kind::Plain => return Err(Refusal::Internal),
                });
            }
            Answer::Passed(response) => {
                let bytes = whole_body(response).await?;
                let json = Json::parse(&bytes, MAX_DEPTH).map_err(|_| Refusal::ReadFailed)?;
                let Json::Object(mut message) = json else { return Err(Refusal::ReadFailed) };
                return match (message.remove("result"), message.remove("error")) {
                    (Some(Json::Object(result)), None) => Ok(End::Result(result, false)),
                    (None, Some(Json::Object(error))) => Ok(End::Error(error, false)),
                    _ => Err(Refusal::ReadFailed),
                };
            }
            Answer::Spoken(mut spoken) => loop {
                match spoken.words.next().await {
                    Some(Word::Event(..)) => {}
                    Some(Word::End(verdict)) => break (*verdict)?,
                    // Nobody was told where to come back for it.
                    Some(Word::Elsewhere) | None => return Err(Refusal::Internal),
                }
            },
            Answer::Accepted => return Err(Refusal::Internal),
        };
    }
}

async fn whole_body(response: Response<Body>) -> Result<Bytes, Refusal> {
    let mut body = response.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::ReadFailed)?.into_data() else { continue };
        if bytes.len() + data.len() > MAX_ANSWER_BYTES {
            return Err(Refusal::ReadFailed);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}
