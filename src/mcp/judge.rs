//! What an upstream's answer to a call proves.
//!
//! Promises: a pure function of status and body. "Certainly not run" is said only of the statuses and codes that
//! servers give before they run anything; whatever is not understood is unknown, never a failure.
//!
//! | upstream answered | verdict |
//! |---|---|
//! | a `result` with the call's id | answered (or asks for input) |
//! | an `error` after other messages on its stream: the call had begun | answered |
//! | an `error` with a code that is given before execution, whatever the status | not run |
//! | -32602 or -32603, whatever the status: SDKs raise them from inside a tool | answered |
//! | any other `error` with 401, 403, 404, 405, 406, 413, 415 | not run |
//! | any other `error` | answered |
//! | 401, 403, 404, 405, 406, 413, 415, 429 without a JSON-RPC body, and no message before | not run |
//! | anything else | unknown |

use crate::domain::json::{Json, Object};

/// Codes that are given before anything is run: unreadable, invalid, no such method, header mismatch, missing
/// capability, unsupported version.
const BEFORE_EXECUTION: [i64; 6] = [-32700, -32600, -32601, -32020, -32021, -32022];

/// Codes that a tool itself may cause.
const FROM_INSIDE: [i64; 2] = [-32602, -32603];

/// Statuses with which a server turns a request away before it runs anything.
const TURNED_AWAY: [u16; 7] = [401, 403, 404, 405, 406, 413, 415];

/// Statuses that in a re-run may speak of the retry rather than of the first attempt.
const OF_THE_RETRY: [u16; 6] = [409, 412, 422, 423, 425, 429];

/// A JSON-RPC response, found to carry the call's own id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Its `result`.
    Result(Object),
    /// Its `error`.
    Error(Object),
}

/// What the answer proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ran (or the tool itself says that it could not): this is its answer.
    Answered {
        /// The answer.
        reply: Reply,
        /// In a re-run it may speak of the retry.
        doubtful_in_rerun: bool,
    },
    /// It asks for input before it can finish.
    AwaitingInput(Object),
    /// It certainly did not run.
    NotRun {
        /// The upstream's own words, not yet redacted.
        detail: Option<String>,
    },
    /// It may have run.
    Unknown,
}

/// The response in `json`, if it answers the call with this id. An error may carry `null` where the server could
/// not read the id; then only its being a refusal before execution counts, and only where it is the `first` thing that
/// is said to the call's own request: later, or on a stream that was asked for again, it speaks of something else.
pub fn reply_to(json: Json, id: &Json, first: bool) -> Option<Reply> {
    let Json::Object(mut message) = json else {
        return None;
    };
    if message.get("jsonrpc").and_then(Json::as_str) != Some("2.0") || message.contains("method") {
        return None;
    }
    let own = message.get("id") == Some(id);
    let unread = matches!(message.get("id"), None | Some(Json::Null));
    match (message.remove("result"), message.remove("error")) {
        (Some(Json::Object(result)), None) if own => Some(Reply::Result(result)),
        (None, Some(Json::Object(error))) if own => Some(Reply::Error(error)),
        (None, Some(Json::Object(error))) if first && unread && is_before_execution(&error) => {
            Some(Reply::Error(error))
        }
        _ => None,
    }
}

/// What status and reply prove. `begun`: other messages about the call came before it. `release_tool_errors`: the
/// operation says that an `isError` result means "not run".
pub fn judge(status: u16, reply: Option<Reply>, begun: bool, release_tool_errors: bool) -> Verdict {
    match reply {
        Some(Reply::Result(result)) if asks_for_input(&result) => Verdict::AwaitingInput(result),
        Some(Reply::Result(result)) => {
            let tool_error = is_tool_error(&result);
            if tool_error && release_tool_errors {
                return Verdict::NotRun { detail: first_text(&result) };
            }
            Verdict::Answered {
                reply: Reply::Result(result),
                doubtful_in_rerun: tool_error || is_of_the_retry(status),
            }
        }
        Some(Reply::Error(error)) => {
            let from_inside = code(&error).is_some_and(|code| FROM_INSIDE.contains(&code));
            let turned_away = TURNED_AWAY.contains(&status) && !from_inside;
            if !begun && (turned_away || is_before_execution(&error)) {
                let detail = error.get("message").and_then(Json::as_str).map(str::to_owned);
                return Verdict::NotRun { detail };
            }
            Verdict::Answered { reply: Reply::Error(error), doubtful_in_rerun: is_of_the_retry(status) }
        }
        None if !begun && (TURNED_AWAY.contains(&status) || status == 429) => {
            Verdict::NotRun { detail: None }
        }
        None => Verdict::Unknown,
    }
}

/// Whether a result is a tool's own error.
pub fn is_tool_error(result: &Object) -> bool {
    result.get("isError").and_then(Json::as_bool) == Some(true)
}

/// The first text of a tool's result.
pub fn first_text(result: &Object) -> Option<String> {
    let content = result.get("content").and_then(Json::as_array)?;
    content.iter().find_map(|part| part.get("text").and_then(Json::as_str)).map(str::to_owned)
}

fn asks_for_input(result: &Object) -> bool {
    result.get("resultType").and_then(Json::as_str) == Some("input_required")
}

fn code(error: &Object) -> Option<i64> {
    error.get("code").and_then(Json::as_i64)
}

fn is_before_execution(error: &Object) -> bool {
    code(error).is_some_and(|code| BEFORE_EXECUTION.contains(&code))
}

/// Whether such an answer may speak of the retry, where the call was sent before.
pub fn is_of_the_retry(status: u16) -> bool {
    OF_THE_RETRY.contains(&status)
}
