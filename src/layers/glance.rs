//! A look at the body of a message that is refused before it is parsed: its id, and what it wanted.
//!
//! Promises: whatever goes wrong, the request is answered, then without them. However many are refused at once, no more
//! than [`BUDGET`] bytes of them are in memory (or one body, where that may be larger); the others wait unread. Strangers
//! have the same, and wait no longer than their time.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use tokio::sync::Semaphore;

use super::Asked;
use super::body::{BodyFault, forget, read_body};
use crate::domain::policy::Kind;
use crate::mcp::message::{Era, Message};
use crate::wire::envelope::Envelope;

/// How much of a stranger's body is read, in bytes.
const STRANGER_BYTES: u64 = 64 * 1024;

/// How long is waited for it.
const STRANGER_TIME: Duration = Duration::from_secs(2);

/// How many bytes are read at once of calls that find no place.
pub const BUDGET: u64 = 8 << 20;

/// The strangers that are read at once: as many bytes. They have a budget of their own, and so keep no known actor
/// waiting. A process is one gate, so it has one.
static STRANGERS: Semaphore = Semaphore::const_new(128);

/// What the smallest of them counts for: its headers are in memory, too.
const LEAST: u64 = 4 * 1024;

/// How long is waited for the body of one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks at calls of known actors.
#[derive(Debug)]
pub struct Glance {
    /// The largest body, in bytes.
    limit: u64,
    budget: Semaphore,
}

impl Glance {
    /// At bodies of at most so many bytes.
    pub fn new(limit: u64) -> Self {
        let budget = usize::try_from(BUDGET.max(limit)).unwrap_or(Semaphore::MAX_PERMITS);
        Self { limit, budget: Semaphore::new(budget.min(Semaphore::MAX_PERMITS)) }
    }

    /// Notes the id of a call, and what it wanted.
    pub(super) async fn at<B>(&self, asked: &Asked, body: B)
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        if asked.is_plain() {
            return forget(body).await;
        }
        let declared = body.size_hint().upper().unwrap_or(self.limit);
        let share = declared.min(self.limit).max(LEAST.min(self.limit));
        // The semaphore is never closed; a share is never larger than all that there is.
        let _share = self.budget.acquire_many(u32::try_from(share).unwrap_or(u32::MAX)).await.ok();
        if let Ok(Ok(bytes)) = tokio::time::timeout(PATIENCE, read_body(body, self.limit)).await {
            learn(asked, &bytes);
        }
    }
}

/// Notes the id of a stranger's request, and what it wanted, so that the challenge can name the scopes.
pub(super) async fn at_stranger<B>(asked: &Asked, body: B)
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    if asked.is_plain() {
        return forget(body).await;
    }
    let reading = async {
        // The semaphore is never closed.
        let _share = STRANGERS.acquire().await.ok();
        if let Ok::<_, BodyFault>(bytes) = read_body(body, STRANGER_BYTES).await {
            learn(asked, &bytes);
        }
    };
    let _in_time = tokio::time::timeout(STRANGER_TIME, reading).await.is_ok();
}

fn learn(asked: &Asked, bytes: &Bytes) {
    match Message::parse(bytes) {
        Ok(Message::Request(request)) => {
            let era = if request.version().is_some() { Era::Modern } else { Era::Legacy };
            let is_tool_call = request.method == "tools/call";
            if is_tool_call {
                asked.learn_wanted(Kind::Tool, request.subject().unwrap_or_default());
                let arguments = request.params().and_then(|params| params.get("arguments")?.as_object());
                if let Some(arguments) = arguments {
                    asked.learn_wanted_arguments(arguments);
                }
            } else {
                asked.learn_wanted(Kind::Method, &request.method);
            }
            asked.learn_envelope(Envelope { id: request.id, era, is_tool_call });
        }
        Ok(Message::Notification(_) | Message::Response(_)) => {}
        Err(_) => asked.learn_id(bytes),
    }
}
