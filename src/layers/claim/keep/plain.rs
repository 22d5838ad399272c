//! What of a plain answer is kept, and what its client hears.
//!
//! Promises: status and bytes are kept as the first client gets them, with the headers on the list and no others; what says
//! that the request was not run passes as the upstream said it, and is not kept.

use http::HeaderMap;

use super::{End, Heard, Keeper};
use crate::domain::answer::{Kept, Kind};
use crate::domain::audit::Executed;
use crate::domain::ledger::Came;
use crate::domain::policy::Meaning;
use crate::domain::redact::text_has_secret;
use crate::domain::refusal::Refusal;
use crate::layers::forward::plain::Heard as Answered;
use crate::layers::plain::{Shown, shown};
use crate::mcp::judge::is_of_the_retry;
use crate::upstream::headers::kept;

impl Keeper<'_> {
    /// What of an answer is kept and heard.
    pub(super) fn plain(&self, answered: Answered) -> End {
        let Answered { status, meaning, mut headers, body } = answered;
        if meaning == Meaning::Unknown {
            return End::unknown(Some(status));
        }
        // Without the client's token it speaks of one that is none of the client's.
        let not_for_client = status == 401 && !self.forwards_token;
        let Some(body) = body.filter(|_| !not_for_client || meaning == Meaning::Completes) else {
            return unread(status, meaning);
        };
        let Shown { bytes, has_secret, summary } = shown(self.operation, &mut headers, body);
        let list = kept(&headers, Kind::Plain);
        let secret = has_secret || list.iter().any(|(_, text)| text_has_secret(text));
        let beside = beside(&headers);
        let kept = Kept { kind: Kind::Plain, status, headers: list, body: bytes };
        if meaning == Meaning::Releases {
            let refusal = Refusal::ExecutionFailed { detail: None };
            return End {
                summary,
                heard: Heard::TurnedAway { kept, beside },
                ..End::not_run(refusal, Some(status))
            };
        }
        let may_be_kept = kept.body.len() <= self.limit && !secret;
        let response = may_be_kept.then(|| kept.encode());
        End {
            came: Came::Completed { response, doubtful_in_rerun: may_speak_of_the_retry(status) },
            heard: Heard::Answer { kept, beside },
            reason: None,
            executed: Executed::Yes,
            summary,
            status: Some(status),
        }
    }
}

/// An answer of which nothing can be shown.
fn unread(status: u16, meaning: Meaning) -> End {
    if meaning == Meaning::Releases {
        return End::not_run(Refusal::ExecutionFailed { detail: None }, Some(status));
    }
    End {
        came: Came::Completed { response: None, doubtful_in_rerun: may_speak_of_the_retry(status) },
        heard: Heard::NotShown,
        reason: None,
        executed: Executed::Yes,
        summary: None,
        status: Some(status),
    }
}

/// Whether such an answer may speak of the retry, where the request was sent before. An app that does not let the caller in
/// by now says nothing of what it did before.
fn may_speak_of_the_retry(status: u16) -> bool {
    status == 403 || is_of_the_retry(status)
}

/// What the first client hears beside what is kept.
fn beside(headers: &HeaderMap) -> HeaderMap {
    let mut beside = HeaderMap::with_capacity(headers.len());
    let others = headers.iter().filter(|(name, _)| !Kind::Plain.keeps(name.as_str()));
    for (name, value) in others {
        beside.append(name, value.clone());
    }
    beside
}
