//! Stored rows as JSON objects: the columns by their names, in the table's order.
//!
//! Promises: keys, hashes and names come as they are stored; JSON in a column comes as JSON; times are RFC 3339 in UTC.

use crate::domain::answer::Kept;
use crate::domain::audit::Facts;
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::time::Timestamp;
use crate::store::{ListedClaim, RecordedEvent};
use crate::story::words::time;

/// The columns of `audit_events`, in the order of [`event`].
pub(super) const COLUMNS: [&str; 21] = [
    "id",
    "at",
    "tenant_id",
    "service",
    "user_id",
    "session_id",
    "tool",
    "decision",
    "reason",
    "args_hash",
    "args",
    "result_summary",
    "idempotency_key",
    "duration_ms",
    "attempt_id",
    "executed",
    "upstream_status",
    "policy_version",
    "trace_id",
    "protocol",
    "client",
];

/// One row of `audit_events`.
pub(super) fn event(row: &RecordedEvent) -> Json {
    let (event, facts) = (&row.event, &row.event.facts);
    Json::object([
        ("id", event.id.to_string().into()),
        ("at", time(row.at).into()),
        ("tenant_id", facts.tenant_id.clone().into()),
        ("service", facts.service.clone().into()),
        ("user_id", facts.user_id.clone().into()),
        ("session_id", facts.session_id.clone().into()),
        ("tool", facts.tool.clone().into()),
        ("decision", event.decision.as_str().into()),
        ("reason", event.reason.clone().into()),
        ("args_hash", facts.args_hash.clone().into()),
        ("args", json(facts.args.as_deref())),
        ("result_summary", json(event.result_summary.as_deref())),
        ("idempotency_key", facts.idempotency_key.clone().into()),
        ("duration_ms", event.duration_ms.into()),
        ("attempt_id", facts.attempt_id.map(|id| id.to_string()).into()),
        ("executed", event.executed.as_str().into()),
        ("upstream_status", event.upstream_status.into()),
        ("policy_version", facts.policy_version.clone().into()),
        ("trace_id", facts.trace_id.clone().into()),
        ("protocol", facts.protocol.clone().into()),
        ("client", facts.client.clone().into()),
    ])
}

/// One row of `idempotency_claims`. The answer, which may be large, comes only where `with_answer` asks for it.
pub(super) fn claim(row: &ListedClaim, with_answer: bool) -> Json {
    let (id, claim) = (&row.id, &row.claim);
    let time = |at: Option<Timestamp>| Json::from(at.map(time));
    let mut object = Json::object([
        ("tenant_id", id.tenant.clone().into()),
        ("service", id.service.clone().into()),
        ("tool", id.tool.clone().into()),
        ("idempotency_key", id.key.clone().into()),
        ("user_id", claim.user.clone().into()),
        ("args_hash", claim.args_hash.clone().into()),
        ("status", claim.status.as_str().into()),
        ("revision", claim.revision.into()),
        ("attempt_id", claim.attempt_id.to_string().into()),
        ("attempt", attempt(&claim.facts)),
        ("round_hash", claim.round.to_column().into()),
        ("lease_until", time(claim.lease_until)),
        ("attempt_until", time(claim.attempt_until)),
        ("first_sent_at", time(claim.first_sent_at)),
        ("created_at", time(Some(claim.created_at))),
        ("settled_at", time(claim.settled_at)),
        ("expires_at", time(claim.expires_at)),
        ("response_bytes", claim.response.as_ref().map(|bytes| bytes.len() as u64).into()),
    ]);
    if let (true, Some(members)) = (with_answer, object.as_object_mut()) {
        members.insert("response", claim.response.as_ref().map(answer));
    }
    object
}

/// What the claim keeps for the attempt's audit row.
fn attempt(facts: &Facts) -> Json {
    Json::object([
        ("session_id", Json::from(facts.session_id.clone())),
        ("args", json(facts.args.as_deref())),
        ("policy_version", facts.policy_version.clone().into()),
        ("trace_id", facts.trace_id.clone().into()),
        ("protocol", facts.protocol.clone().into()),
        ("client", facts.client.clone().into()),
    ])
}

fn answer(column: &bytes::Bytes) -> Json {
    let Ok(kept) = Kept::decode(column) else {
        return Json::Null;
    };
    let headers = kept.headers.into_iter().map(|(name, value)| (name, Json::from(value)));
    let body = Json::parse(&kept.body, MAX_DEPTH);
    Json::object([
        ("status", Json::from(kept.status)),
        ("headers", Json::object(headers)),
        ("body", body.unwrap_or_else(|_| String::from_utf8_lossy(&kept.body).into_owned().into())),
    ])
}

/// A column that holds JSON; what is no JSON after all comes as the text that it is.
fn json(column: Option<&str>) -> Json {
    column.map_or(Json::Null, |text| {
        Json::parse(text.as_bytes(), MAX_DEPTH).unwrap_or_else(|_| Json::String(text.to_owned()))
    })
}

/// The operation's name for a person: with the listener that it belongs to, where it is one's.
pub(super) fn operation(service: &str, tool: &str) -> String {
    service.split_once(':').map_or_else(|| tool.to_owned(), |(_, listener)| format!("{tool} ({listener})"))
}
