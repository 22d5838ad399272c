//! The answer to a call that went out inside another one.
//!
//! Promises: from here on it is the inner call's own answer, or one that says that it cannot be shown: where the policy
//! has something to mask in it, an answer that cannot be read is not passed on.

use crate::domain::json::{Json, Object};
use crate::domain::policy::Operation;
use crate::mcp::judge::{Reply, is_tool_error};
use crate::mcp::message::Request;

/// What is said in place of an answer that cannot be masked.
const WITHHELD: &str = "The tool was run. Its answer holds fields that are not to be shown, and it did not come in the \
form in which they could be taken out, so nothing of it is shown. Do not call the tool again for that.";

/// A reply, and whether it is known to be the call's own, not that of a tool around it.
pub(super) struct Own {
    pub(super) reply: Option<Reply>,
    pub(super) is_own: bool,
}

/// The reply to this call in the reply to what went out for it.
pub(super) fn own(reply: Option<Reply>, request: &Request, operation: &Operation) -> Own {
    match (&request.inside, reply) {
        (Some(shell), Some(Reply::Result(outer))) => match shell.take_out(outer) {
            Ok(inner) => Own { reply: Some(Reply::Result(inner)), is_own: true },
            Err(outer) => {
                let harmless = is_tool_error(&outer) || operation.redactor().has_no_paths();
                let shown = if harmless { outer } else { withheld(&outer) };
                Own { reply: Some(Reply::Result(shown)), is_own: false }
            }
        },
        (inside, reply) => Own { is_own: inside.is_none(), reply },
    }
}

fn withheld(outer: &Object) -> Object {
    let mut result = Object::new();
    if let Some(kind) = outer.get("resultType") {
        result.insert("resultType", kind.clone());
    }
    let text = Json::object([("type", Json::from("text")), ("text", WITHHELD.into())]);
    result.insert("content", vec![text]);
    result.insert("isError", true);
    result
}
