//! Which clients there are, in which eras, and what each is by its own nature: one table.
//!
//! What stands here is not the gate's doing. Where a client cannot do something at all, that is a word of this table and
//! the course shows what it does instead.

use std::process::Command;

use serde_json::{Value, json};

use super::agent::root;
use crate::harness::client::Era;

/// A client in an era.
pub(super) struct Kind {
    /// For whom a test fails.
    pub(super) name: &'static str,
    /// What it speaks.
    pub(super) era: Era,
    /// How it is started.
    pub(super) command: fn() -> Command,
    /// What its user gets to see while a call runs.
    pub(super) shows: Shows,
    /// What it does when it is asked for input.
    pub(super) asked: Asked,
    /// What giving a call up comes to.
    pub(super) gives_up: GivesUp,
    /// Whether one session lasts longer than one order.
    pub(super) keeps_session: bool,
    /// Whether it calls a tool that it was not shown.
    pub(super) calls_blindly: bool,
    /// What its caller sees of the challenge for a further scope.
    pub(super) step_up: Value,
    /// What its caller sees of the challenge for a better token.
    pub(super) unauthorized: Value,
    /// What its caller sees of a session that the app has lost, where there are sessions and it does not begin a new one
    /// by itself and repeat the call.
    pub(super) lost_session: Option<Value>,
}

/// Progress and questions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    All,
    /// Only the end.
    End,
}

/// Elicitation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// It asks its user, and the call goes on with what he says.
    Answers,
    /// There is nobody to ask: it declines.
    Declines,
    /// It ends with the question, and says nothing.
    Stops,
}

/// Cancellation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GivesUp {
    /// It says so (`notifications/cancelled`).
    Notice,
    /// It closes the response's stream.
    HangUp,
    /// It only stops waiting. The other side hears of it when the session is left.
    Leaves,
}

fn python(client: &str, mode: &str) -> Command {
    let mut command = Command::new(root().join(".parts/clients").join(client).join("bin/python"));
    command.arg(root().join("tests/clients").join(client).join("steps.py")).arg(mode);
    command
}

/// A script of the TypeScript SDKs.
pub(super) fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", root().join(".parts/clients/typescript/node_modules"));
    command.arg(root().join("tests/clients/ts").join(script));
    command
}

fn typescript(script: &str, mode: &str) -> Command {
    let mut command = node(script);
    command.arg(mode);
    command
}

fn rust(mode: &str) -> Command {
    let mut command = Command::new(crate::harness::billing::example("rmcp_client"));
    command.arg(mode);
    command
}

fn inspector(mode: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(root().join("tests/clients/inspector/steps.cjs"));
    command.arg(root().join(".parts/clients/inspector/node_modules")).arg(mode);
    command
}

/// What most are like.
fn sdk(name: &'static str, era: Era, command: fn() -> Command) -> Kind {
    Kind {
        name,
        era,
        command,
        shows: Shows::All,
        asked: Asked::Answers,
        gives_up: if era == Era::Modern { GivesUp::HangUp } else { GivesUp::Notice },
        keeps_session: true,
        calls_blindly: true,
        step_up: Value::Null,
        unauthorized: Value::Null,
        lost_session: None,
    }
}

/// The Python SDK 1.x, which speaks the legacy era only. A challenge, as every 4xx but 404, ends its whole session.
pub(super) fn python_1() -> Kind {
    Kind {
        gives_up: GivesUp::Leaves,
        step_up: json!({ "type": "HTTPStatusError", "http": 403, "ended": true }),
        unauthorized: json!({ "type": "HTTPStatusError", "http": 401, "ended": true }),
        lost_session: Some(json!({ "type": "McpError" })),
        ..sdk("Python 1", Era::Legacy, || python("python1", "legacy"))
    }
}

/// The Python SDK 2.x, which finds out by itself that the gate speaks the modern era.
pub(super) fn python_2_modern() -> Kind {
    Kind {
        step_up: json!({ "type": "MCPError", "code": 40300 }),
        unauthorized: json!({ "type": "MCPError" }),
        ..sdk("Python 2, modern", Era::Modern, || python("python2", "auto"))
    }
}

/// The Python SDK 2.x, told to speak the legacy era.
pub(super) fn python_2_legacy() -> Kind {
    Kind {
        step_up: json!({ "type": "MCPError", "code": 40300 }),
        unauthorized: json!({ "type": "MCPError" }),
        lost_session: Some(json!({ "type": "MCPError" })),
        ..sdk("Python 2, legacy", Era::Legacy, || python("python2", "legacy"))
    }
}

/// The TypeScript SDK 1.x, which speaks the legacy era only.
pub(super) fn typescript_1() -> Kind {
    Kind {
        step_up: json!({ "type": "StreamableHTTPError", "code": 403 }),
        unauthorized: json!({ "type": "StreamableHTTPError", "code": 401 }),
        lost_session: Some(json!({ "type": "StreamableHTTPError", "code": 404 })),
        ..sdk("TypeScript 1", Era::Legacy, || typescript("sdk1.cjs", "legacy"))
    }
}

/// The TypeScript SDK 2.x, pinned to the modern era.
pub(super) fn typescript_2_modern() -> Kind {
    Kind {
        step_up: json!({ "type": "InsufficientScopeError", "scope": "billing:refund" }),
        unauthorized: json!({ "http": 401 }),
        ..sdk("TypeScript 2, modern", Era::Modern, || typescript("client2.cjs", "modern"))
    }
}

/// The TypeScript SDK 2.x in the legacy era, its default.
pub(super) fn typescript_2_legacy() -> Kind {
    Kind {
        step_up: json!({ "type": "InsufficientScopeError", "scope": "billing:refund" }),
        unauthorized: json!({ "http": 401 }),
        lost_session: Some(json!({ "http": 404 })),
        ..sdk("TypeScript 2, legacy", Era::Legacy, || typescript("client2.cjs", "legacy"))
    }
}

/// The Rust SDK, discovering.
pub(super) fn rust_modern() -> Kind {
    Kind {
        step_up: json!({ "type": "challenge" }),
        unauthorized: json!({ "type": "challenge" }),
        ..sdk("Rust, modern", Era::Modern, || rust("modern"))
    }
}

/// The Rust SDK, initializing.
pub(super) fn rust_legacy() -> Kind {
    Kind {
        step_up: json!({ "type": "challenge" }),
        unauthorized: json!({ "type": "challenge" }),
        ..sdk("Rust, legacy", Era::Legacy, || rust("legacy"))
    }
}

/// The Inspector's command line: a process and a session for every order, nobody to ask, nothing to see but the end. It
/// lists before it calls, and calls nothing that it was not shown; so it meets no challenge for a scope.
pub(super) fn inspector_modern() -> Kind {
    Kind { asked: Asked::Stops, ..inspector_in("Inspector, modern", Era::Modern, || inspector("modern")) }
}

/// The same in the legacy era.
pub(super) fn inspector_legacy() -> Kind {
    Kind { asked: Asked::Declines, ..inspector_in("Inspector, legacy", Era::Legacy, || inspector("legacy")) }
}

fn inspector_in(name: &'static str, era: Era, command: fn() -> Command) -> Kind {
    Kind {
        shows: Shows::End,
        // Nothing of its own: its process is ended.
        gives_up: GivesUp::HangUp,
        keeps_session: false,
        calls_blindly: false,
        step_up: json!({ "type": "tool_not_found", "exit": 5 }),
        unauthorized: json!({ "type": "auth_required", "exit": 3 }),
        ..sdk(name, era, command)
    }
}
