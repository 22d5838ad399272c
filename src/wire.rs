//! The one table from refusal to answer.
//!
//! Promises: how each [`Refusal`] looks to a client (code, sentence, status), whether the call ran and whether the
//! same key may be sent again stands here and nowhere else, in [`row`]. No sentence holds anything internal.
//!
//! The shapes are what the official SDKs survive: only HTTP 200 with a JSON-RPC body that carries the request's id
//! works in all of them, so a refusal that a model can act on is a tool error (or, for other methods, a JSON-RPC
//! error) with status 200; only what is not a model's problem has a status of its own.

pub mod envelope;
pub mod plain;
pub mod problem;
pub mod render;
mod row;
mod worker;

use std::time::Duration;

pub use row::{Retry, Row, Shape};

use crate::domain::audit::Executed;
use crate::domain::refusal::Refusal;
use crate::mcp::takes::TASKS;
use row::{NEVER_SO, closed, in_about, malformed, reused, ruled_out};

const NOTHING_RAN: (Executed, Retry) = (Executed::No, Retry::SameKey);

/// The table.
#[expect(clippy::too_many_lines, reason = "it is one table, and is read as one")]
pub fn row(refusal: &Refusal) -> Row {
    use Executed::{Maybe, No, Yes};
    use Retry::{NewKey, SameKey};
    use Shape::{Challenge, Fault, Http, Told};
    let of = Row::new;
    // Most have one word for both.
    let same = |word, shape, ran, text| of(word, word, shape, ran, text);
    match refusal {
        Refusal::NotJson { detail } => malformed("not_json", -32700, format!("The body is not well-formed JSON: {detail}.")),
        Refusal::NotOneMessage { detail } => malformed("invalid_request", -32600, format!("The body is not one JSON-RPC 2.0 message: {detail}.")),
        Refusal::BodyTooLarge { limit } => same(
            "body_too_large",
            Http { status: 413, code: -32600 },
            NEVER_SO,
            format!("The body is larger than {limit} bytes."),
        ),
        Refusal::UnsupportedMedia { detail } => same(
            "unsupported_media_type",
            Http { status: 415, code: -32600 },
            NEVER_SO,
            format!("The body cannot be checked: {detail}."),
        ),
        Refusal::BodyCut => of(
            "body_incomplete",
            "malformed_request",
            Http { status: 400, code: -32700 },
            NOTHING_RAN,
            "The body did not arrive whole; nothing was run.".into(),
        ),
        Refusal::VersionMissing => malformed(
            "version_missing",
            -32602,
            "The request's _meta does not name its protocol version; nothing was run.".into(),
        ),
        Refusal::NoSuchEvent => same(
            "no_such_event",
            Http { status: 400, code: -32600 },
            NEVER_SO,
            "Last-Event-ID is none that this gate gave to you.".into(),
        ),
        Refusal::HeaderMismatch { header, detail } => same(
            "header_mismatch",
            Http { status: 400, code: -32020 },
            NEVER_SO,
            format!("{header}: {detail}."),
        ),
        // The one status at which legacy clients begin a new session. The same words for a session that never was.
        Refusal::NoSuchSession => same(
            "no_such_session",
            Http { status: 404, code: -32600 },
            NOTHING_RAN,
            "There is no such session; nothing was run. Initialize a new one and repeat the call with the same key."
                .into(),
        ),
        Refusal::ForeignHost => same(
            "host_not_allowed",
            Http { status: 403, code: 40_302 },
            NEVER_SO,
            "The request is for another host; nothing was run.".into(),
        ),
        Refusal::ForeignOrigin => same(
            "origin_not_allowed",
            Http { status: 403, code: 40_303 },
            NEVER_SO,
            "Web pages of this origin may not call here; nothing was run.".into(),
        ),
        // As servers say it of a task that they do not know.
        Refusal::NoSuchTask => same(
            "no_such_task",
            Told { code: -32602 },
            NEVER_SO,
            "There is no such task; nothing was run.".into(),
        ),
        Refusal::TasksNotDeclared => Row {
            lacks: Some(TASKS),
            ..same(
                "no_such_task",
                Http { status: 400, code: -32021 },
                NEVER_SO,
                format!("The request does not declare the extension {TASKS}; nothing was run."),
            )
        },
        Refusal::NoSuchMethod => same(
            "no_such_task",
            Http { status: 404, code: -32601 },
            NEVER_SO,
            "There is no such method in this version of the protocol; nothing was run.".into(),
        ),
        Refusal::TaskActLost => same(
            "outcome_unknown",
            Told { code: 40_902 },
            (Maybe, Retry::No),
            "The task may have heard this, but the answer got lost. Look at the task (tasks/get) before you send it again."
                .into(),
        ),
        Refusal::NoToken => same(
            "unauthenticated",
            Challenge { status: 401 },
            NOTHING_RAN,
            "A bearer token is needed.".into(),
        ),
        Refusal::BadToken { detail } => Row {
            token_fault: Some(detail.clone()),
            ..same(
                "invalid_token",
                Challenge { status: 401 },
                NOTHING_RAN,
                format!("The bearer token is not accepted: {detail}."),
            )
        },
        Refusal::KeysUnavailable => same(
            "keys_unavailable",
            Http { status: 503, code: -32603 },
            NOTHING_RAN,
            "The keys to check tokens with cannot be had at the moment; nothing was run.".into(),
        ),
        Refusal::UpstreamUnauthorized { scope } => same(
            "upstream_unauthorized",
            Challenge { status: 401 },
            NOTHING_RAN,
            "The service behind the gate did not accept the token; nothing was run.".into(),
        )
        .asking(scope.as_deref().unwrap_or_default()),
        Refusal::UpstreamForbidden { scope } => same(
            "upstream_forbidden",
            Challenge { status: 403 },
            NOTHING_RAN,
            "The service behind the gate wants more scopes than the token has; nothing was run.".into(),
        )
        .asking(scope.as_deref().unwrap_or_default()),
        Refusal::MissingScope { needed, as_tool_error } => of(
            "forbidden",
            "missing_scope",
            if *as_tool_error { Told { code: 40_300 } } else { Challenge { status: 403 } },
            NOTHING_RAN,
            format!("This needs the scopes {}; nothing was run.", needed.join(" ")),
        )
        .asking(&needed.join(" ")),
        Refusal::NotInPolicy => closed("not_in_policy"),
        Refusal::DeniedByPolicy => closed("denied_by_policy"),
        Refusal::ArgumentRule => ruled_out(),
        Refusal::InnerCalls { detail } => same(
            "inner_calls_unreadable",
            Told { code: 40_003 },
            (No, NewKey),
            format!(
                "This tool runs others, and what it would run cannot be read: {detail}; nothing was run. Send the calls \
                 as the tool's schema wants them."
            ),
        ),
        Refusal::PathNotNormal { detail } => same(
            "path_not_normal",
            Http { status: 400, code: -32600 },
            NEVER_SO,
            format!("The path could be read in more than one way: {detail}; nothing was run."),
        ),
        Refusal::MethodOverride => same(
            "method_override",
            Http { status: 400, code: -32600 },
            NEVER_SO,
            "The request asks for another method than its own; nothing was run. Send it with the method that is meant."
                .into(),
        ),
        Refusal::ForeignTenant => same(
            "foreign_tenant",
            Told { code: 40_304 },
            NEVER_SO,
            "The request names a tenant that the token is not for; nothing was run.".into(),
        ),
        Refusal::CallerUnknown { detail } => same(
            "caller_unknown",
            Http { status: 403, code: 40_305 },
            NOTHING_RAN,
            format!("It is not known who calls: {detail}; nothing was run."),
        ),
        Refusal::BodyUnreadable { detail } => of(
            "body_unreadable",
            "malformed_request",
            Http { status: 400, code: -32600 },
            NEVER_SO,
            format!("The body cannot be read as what it should be: {detail}; nothing was run."),
        ),
        Refusal::NoSuchEndpoint => same(
            "no_such_endpoint",
            Http { status: 404, code: -32600 },
            NEVER_SO,
            "There is nothing here.".into(),
        ),
        Refusal::MethodNotAllowed { allow } => Row {
            allow: Some(allow.clone()),
            ..same(
                "method_not_allowed",
                Http { status: 405, code: -32600 },
                NEVER_SO,
                format!("This path does not take that method; it takes {allow}."),
            )
        },
        Refusal::KeyRequired { place } => of(
            "idempotency_key_required",
            "missing_idempotency_key",
            Told { code: 40_000 },
            (No, NewKey),
            format!(
                "This call changes something, so it needs an idempotency key; nothing was run. Put a new unique \
                 value (1 to 128 printable ASCII characters) into {place}, and use that same value \
                 whenever you retry this same action."
            ),
        ),
        Refusal::KeyInvalid { detail } => same(
            "idempotency_key_invalid",
            Told { code: 40_001 },
            (No, NewKey),
            format!(
                "The idempotency key is not usable: {detail}; nothing was run. Send a string of 1 to 128 printable \
                 ASCII characters."
            ),
        ),
        Refusal::KeyAmbiguous { detail } => same(
            "idempotency_key_ambiguous",
            Told { code: 40_002 },
            (No, NewKey),
            format!("The call names more than one idempotency key: {detail}; nothing was run. Send exactly one."),
        ),
        Refusal::PayloadMismatch { first_seen } => {
            reused("idempotency_payload_mismatch").seen(*first_seen)
        }
        // The same answer as above: whether the arguments agree is nobody's business but the first user's.
        Refusal::KeyOfAnotherUser { first_seen } => reused("idempotency_key_of_another_user").seen(*first_seen),
        Refusal::InFlight { first_seen, retry_after } => of(
            "request_in_flight",
            "idempotency_in_flight",
            Told { code: 40_901 },
            (Maybe, SameKey),
            format!(
                "The first call with this idempotency key is still running. It was not started again. Repeat the \
                 same call with the same key {} to get its answer.",
                in_about(*retry_after)
            ),
        )
        .seen(*first_seen)
        .after(*retry_after),
        Refusal::OutcomeUnknown { first_seen, retry_after: Some(wait) } => same(
            "outcome_unknown",
            Told { code: 40_902 },
            (Maybe, SameKey),
            format!(
                "The call may have been carried out, but its answer got lost. Do not send it under a new key. Repeat \
                 it with the same key {}.",
                in_about(*wait)
            ),
        )
        .seen(*first_seen)
        .after(*wait),
        Refusal::OutcomeUnknown { first_seen, retry_after: None } => same(
            "outcome_unknown",
            Told { code: 40_902 },
            (Maybe, Retry::No),
            "The call may have been carried out, but its answer got lost. Do not send it again under a new key: \
             check first whether it took effect, or ask a person to resolve it. Nothing will run under this key \
             until then."
                .into(),
        )
        .seen(*first_seen),
        Refusal::AnswerNotKept { first_seen } => same(
            "answer_not_kept",
            Told { code: 40_903 },
            (Yes, Retry::No),
            "The call was carried out. Its answer was not kept, so it cannot be given again. Do not send it again."
                .into(),
        )
        .seen(*first_seen),
        Refusal::ReplayNotRecorded { first_seen } => same(
            "store_unavailable",
            Told { code: 50_301 },
            (Maybe, SameKey),
            "The first call's answer cannot be given just now. Repeat the call with the same key in a moment.".into(),
        )
        .seen(*first_seen)
        .after(Duration::from_secs(2)),
        Refusal::AnswerNotForClient { first_seen } => of(
            "answer_not_kept",
            "answer_not_for_client",
            Told { code: 40_904 },
            (Maybe, Retry::No),
            "The first answer to this call is of a kind that this client says it cannot take. Do not send the call \
             under a new key."
                .into(),
        )
        .seen(*first_seen),
        Refusal::PossibleDuplicate { earlier_key, first_seen } => Row {
            earlier_key: Some(earlier_key.clone()),
            ..same(
                "possible_duplicate",
                Told { code: 40_905 },
                (No, SameKey),
                format!(
                    "The same call with the same arguments was made a moment ago under the key {earlier_key}; this \
                     one was not run. If it is a retry, send it with that key. If it really is meant a second time, \
                     wait and send it again."
                ),
            )
            .seen(*first_seen)
        },
        Refusal::UpstreamUnreachable => same(
            "upstream_unreachable",
            Told { code: 50_201 },
            NOTHING_RAN,
            "The service could not be reached; nothing was run. Try again with the same key.".into(),
        ),
        Refusal::NoGateway => same(
            "no_gateway",
            Http { status: 502, code: -32603 },
            (Maybe, Retry::No),
            "The service behind the gate gave no response.".into(),
        ),
        Refusal::ExecutionFailed { detail } => same(
            "execution_failed",
            Told { code: 50_202 },
            NOTHING_RAN,
            match detail {
                Some(detail) => {
                    format!("The service refused the call before running it: {detail}. The same key may be used again.")
                }
                None => "The service refused the call before running it. The same key may be used again.".into(),
            },
        ),
        Refusal::ReadFailed => of(
            "execution_failed",
            "read_failed",
            Told { code: 50_203 },
            (Maybe, SameKey),
            "The service gave no usable answer. This call only reads, so it is safe to try again.".into(),
        ),
        Refusal::StoreUnavailable => same(
            "store_unavailable",
            Told { code: 50_301 },
            NOTHING_RAN,
            "This call could not be recorded, so it was not run. Whether an earlier one with this key has run cannot be \
             looked up now. Try again with the same key in a moment.".into(),
        )
        .after(Duration::from_secs(2)),
        Refusal::LeaseLost => worker::lease_lost(),
        Refusal::AttemptOver => worker::attempt_over(),
        Refusal::ReportNotStored => worker::report_not_stored(),
        Refusal::Overloaded => same(
            "overloaded",
            Told { code: 50_302 },
            NOTHING_RAN,
            "The gate is busy; nothing was run. Try again with the same key in a moment.".into(),
        )
        .after(Duration::from_secs(1)),
        Refusal::Draining => of(
            "overloaded",
            "draining",
            Told { code: 50_302 },
            NOTHING_RAN,
            "The gate is about to stop; nothing was run. Try again with the same key in a moment: another one takes the \
             call."
                .into(),
        )
        .after(Duration::from_secs(1)),
        Refusal::Internal => same(
            "internal_error",
            Fault,
            (Maybe, SameKey),
            "The gate failed. If the call carried an idempotency key, repeat it with the same key.".into(),
        ),
    }
}
