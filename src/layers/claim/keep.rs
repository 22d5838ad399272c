//! What of an attempt's end is kept, what the client hears, and what the row says.
//!
//! Promises: what is kept is what the first client gets, or nothing: masked as the policy says for both; an answer in
//! which a secret's pattern remains, or that is too large, completes the claim without being kept.

mod plain;

use bytes::Bytes;
use http::HeaderMap;

use crate::domain::answer::{Kept, Kind};
use crate::domain::audit::Executed;
use crate::domain::fingerprint::Fingerprinter;
use crate::domain::json::{Json, Object};
use crate::domain::ledger::{Came, Expects};
use crate::domain::policy::Operation;
use crate::domain::redact::{has_secret, short, text_has_secret};
use crate::domain::refusal::Refusal;
use crate::layers::forward::Forwarded;
use crate::mcp::judge::{Reply, Verdict};
use crate::mcp::tasks::outbound::Sealer;
use crate::mcp::{errors, found};

/// The row's reason where nobody knows what came of an attempt.
pub(super) const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// The end of one attempt.
#[derive(Debug)]
pub(super) struct End {
    /// What the ledger hears.
    pub came: Came,
    /// What the client hears, unless the ledger finds that the outcome is unknown.
    pub heard: Heard,
    /// Why, for the row.
    pub reason: Option<String>,
    /// Whether it ran, for the row.
    pub executed: Executed,
    /// A few redacted fields of the result.
    pub summary: Option<String>,
    /// The upstream's HTTP status.
    pub status: Option<u16>,
}

/// What the client hears.
#[derive(Debug)]
pub(super) enum Heard {
    /// The answer.
    Answer {
        /// What is kept of it, where it may be.
        kept: Kept,
        /// The rest of what the first client hears.
        beside: HeaderMap,
    },
    /// That it did not run, as the upstream said it.
    TurnedAway {
        /// The answer, which is not kept.
        kept: Kept,
        /// The rest of what the client hears.
        beside: HeaderMap,
    },
    /// That it was answered with more than can be given.
    NotShown,
    /// That it did not run.
    NotRun(Refusal),
    /// That nobody knows.
    Unknown,
}

impl End {
    /// The outcome that is left when nothing trustworthy came.
    pub(super) fn unknown(status: Option<u16>) -> Self {
        Self {
            came: Came::Unknown,
            heard: Heard::Unknown,
            reason: Some(OUTCOME_UNKNOWN.to_owned()),
            executed: Executed::Maybe,
            summary: None,
            status,
        }
    }

    /// The end of an attempt that certainly did not run.
    pub(super) fn not_run(refusal: Refusal, status: Option<u16>) -> Self {
        Self {
            came: Came::NotRun,
            reason: Some(crate::wire::row(&refusal).reason.to_owned()),
            heard: Heard::NotRun(refusal),
            executed: Executed::No,
            summary: None,
            status,
        }
    }
}

/// One answer, masked.
struct Keeping {
    /// For the client.
    kept: Kept,
    /// Its encoding, if it may be kept.
    response: Option<Bytes>,
    /// A few redacted fields of it, for the row.
    summary: Option<String>,
}

/// The keeper of one operation's answers.
pub(super) struct Keeper<'a> {
    /// The operation.
    pub operation: &'a Operation,
    /// Hashes what an `input_required` answer asks for.
    pub fingerprinter: &'a Fingerprinter,
    /// The largest answer that is kept, in bytes.
    pub limit: usize,
    /// Whether the client's own token went on to the upstream, so that its challenge is the client's business.
    pub forwards_token: bool,
    /// Whether the call stands in a session, which the upstream may have lost.
    pub in_session: bool,
    /// Seals the ids of tasks, before anything is kept.
    pub sealer: Sealer,
}

impl Keeper<'_> {
    /// What of `forwarded` is kept and heard.
    pub(super) fn end(&self, forwarded: Forwarded) -> End {
        match forwarded {
            Forwarded::NotSent => End::not_run(Refusal::UpstreamUnreachable, None),
            Forwarded::Lost { status } => End::unknown(status),
            // Only calls without a claim are passed; for a claimed one it proves nothing.
            Forwarded::Passed { .. } | Forwarded::Spoken { .. } | Forwarded::Resumed(_) => End::unknown(None),
            Forwarded::Plain(answered) => self.plain(*answered),
            Forwarded::Judged { status, headers, challenged, verdict } => match verdict {
                Verdict::Unknown => End::unknown(Some(status)),
                Verdict::NotRun { detail } => {
                    let refusal = match challenged {
                        Some(scope) if self.forwards_token && status == 401 => {
                            Refusal::UpstreamUnauthorized { scope }
                        }
                        Some(scope) if self.forwards_token => Refusal::UpstreamForbidden { scope },
                        // In the gate's own words: a challenge's may name the upstream's inner address.
                        Some(_) => Refusal::ExecutionFailed { detail: None },
                        // What a server says that has lost the session. The client must hear it, to begin another.
                        None if self.in_session && status == 404 => Refusal::NoSuchSession,
                        None => Refusal::ExecutionFailed { detail: detail.map(|text| short(&text, 300)) },
                    };
                    End::not_run(refusal, Some(status))
                }
                Verdict::AwaitingInput(result) => {
                    let expects = self.expects(&result);
                    let Keeping { kept, response, summary } =
                        self.keep(Kind::Result, result, status, headers);
                    End {
                        came: Came::AwaitingInput { response, expects },
                        heard: Heard::Answer { kept, beside: HeaderMap::new() },
                        reason: Some("input_required".to_owned()),
                        executed: Executed::Maybe,
                        summary,
                        status: Some(status),
                    }
                }
                Verdict::Answered { reply, doubtful_in_rerun } => {
                    let (kind, member) = match reply {
                        Reply::Result(result) => (Kind::Result, result),
                        Reply::Error(error) => (Kind::Error, error),
                    };
                    let code = (kind == Kind::Result).then(|| errors::code_of(&member)).flatten();
                    let reason = code.and_then(|code| self.operation.reason_for(&code).map(str::to_owned));
                    let Keeping { kept, response, summary } = self.keep(kind, member, status, headers);
                    End {
                        came: Came::Completed { response, doubtful_in_rerun },
                        heard: Heard::Answer { kept, beside: HeaderMap::new() },
                        reason,
                        executed: Executed::Yes,
                        summary,
                        status: Some(status),
                    }
                }
            },
        }
    }

    /// The answer for the client, its encoding if it may be kept, its summary for the row.
    fn keep(&self, kind: Kind, member: Object, status: u16, headers: Vec<(String, String)>) -> Keeping {
        let redactor = self.operation.redactor();
        let mut member = member;
        if kind == Kind::Result {
            self.sealer.result(&mut member);
        }
        let mut value = Json::Object(member);
        match kind {
            Kind::Error => redactor.mask_error(&mut value),
            Kind::Result | Kind::Plain => redactor.mask_result(&mut value),
        };
        let secret = has_secret(&value) || headers.iter().any(|(_, text)| text_has_secret(text));
        let summary = self.operation.summary_of(&value);
        let kept = Kept { kind, status, headers, body: Bytes::from(value.to_bytes()) };
        let small = kept.body.len() <= self.limit;
        let response = (small && !secret).then(|| kept.encode());
        Keeping { kept, response, summary }
    }

    fn expects(&self, result: &Object) -> Expects {
        let inputs = match result.get("inputRequests") {
            Some(Json::Object(requests)) => !requests.is_empty(),
            Some(Json::Array(requests)) => !requests.is_empty(),
            _ => false,
        };
        // Some servers write `null` for what they leave out.
        let state = result.get("requestState").filter(|state| !state.is_null());
        Expects { state: self.fingerprinter.state_hash(state), inputs }
    }
}

/// What is kept of an answer that did not come as the call's own: its encoding, if it may be kept, and its summary.
pub(super) fn found(operation: &Operation, found: Json, limit: usize) -> (Option<Bytes>, Option<String>) {
    let (kept, value) = found::kept(Some(operation), found);
    let summary = operation.summary_of(&value);
    let may_be_kept = kept.body.len() <= limit && !has_secret(&value);
    (may_be_kept.then(|| kept.encode()), summary)
}
