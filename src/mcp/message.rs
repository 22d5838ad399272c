//! One body, one checked JSON-RPC message.
//!
//! Promises: what [`Message::parse`] returns is one request, notification or response of JSON-RPC 2.0; a batch, a
//! duplicate member, a null or fractional id is refused. What is forwarded is written from what was checked.
//!
//! Absent on purpose: headers, which never decide. [`crate::mcp::headers`] holds them against the message.

use super::shell::Shell;
use crate::domain::json::{Json, MAX_DEPTH, Object, folded};
use crate::domain::refusal::Refusal;

/// The protocol version that began the stateless era.
pub const FIRST_MODERN: &str = "2026-07-28";

/// The `_meta` member that names the protocol version in the modern era.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The `_meta` member that names the client.
pub const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// The `_meta` member that lists what the client can take.
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The members of a message. None may stand beside one that a lenient reader takes for it.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of `params` by which is decided what a call is.
const PARAMS: [&str; 10] = [
    "name",
    "arguments",
    "uri",
    "taskId",
    "task",
    "_meta",
    "inputResponses",
    "requestState",
    "idempotencyKey",
    "requestId",
];

/// Which rules a message follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25: a handshake, sessions.
    Legacy,
    /// From 2026-07-28: each request stands alone and says its version in `_meta`.
    Modern,
}

/// One message from a client.
#[derive(Clone, Debug)]
pub enum Message {
    /// It wants an answer.
    Request(Request),
    /// It wants none. The method.
    Notification(Request),
    /// A legacy client's answer to a request of the server's.
    Response(Object),
}

/// A request, or a notification (whose id is then absent).
#[derive(Clone, Debug)]
pub struct Request {
    /// A string or an integer, as it was written.
    pub id: Option<Json>,
    /// The method.
    pub method: String,
    /// The whole message; `params` within.
    pub body: Object,
    /// The call of another tool that it stands inside of, if it does.
    pub inside: Option<Shell>,
}

impl Message {
    /// The message that `bytes` hold.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let json = Json::parse(bytes, MAX_DEPTH).map_err(|fault| {
            let detail = fault.to_string();
            if fault.is_duplicate() { Refusal::NotOneMessage { detail } } else { Refusal::NotJson { detail } }
        })?;
        match json {
            Json::Object(body) => Self::of(body),
            Json::Array(_) => Err(not_one("batches are not accepted: send one message per request")),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
                Err(not_one("the body is not a JSON object"))
            }
        }
    }

    fn of(body: Object) -> Result<Self, Refusal> {
        check_names(&body, &MEMBERS)?;
        if let Some(params) = body.get("params").and_then(Json::as_object) {
            check_names(params, &PARAMS)?;
        }
        if body.get("jsonrpc").and_then(Json::as_str) != Some("2.0") {
            return Err(not_one("\"jsonrpc\" must be \"2.0\""));
        }
        let id = body.get("id").cloned();
        if !id.as_ref().is_none_or(is_id) {
            return Err(not_one("\"id\" must be a string or an integer"));
        }
        let Some(method) = body.get("method") else {
            let answers = body.contains("result") != body.contains("error") && id.is_some();
            return if answers {
                Ok(Self::Response(body))
            } else {
                Err(not_one("neither a request, a notification nor a response"))
            };
        };
        let Some(method) = method.as_str().filter(|method| !method.is_empty()) else {
            return Err(not_one("\"method\" must be a string"));
        };
        if body.contains("result") || body.contains("error") {
            return Err(not_one("a request cannot hold \"result\" or \"error\""));
        }
        if body.get("params").is_some_and(|params| params.as_object().is_none()) {
            return Err(not_one("\"params\" must be an object"));
        }
        let method = method.to_owned();
        if id.is_none() && method == "tools/call" {
            return Err(not_one("tools/call needs an \"id\""));
        }
        let request = Request { id, method, body, inside: None };
        Ok(if request.id.is_some() { Self::Request(request) } else { Self::Notification(request) })
    }
}

impl Request {
    /// The message that goes out.
    pub fn outgoing(&self) -> Object {
        let body = self.body.clone();
        match &self.inside {
            None => body,
            Some(shell) => shell.put_in(body),
        }
    }

    /// `params`, where there are any.
    pub fn params(&self) -> Option<&Object> {
        self.body.get("params").and_then(Json::as_object)
    }

    /// `params`, to change. An empty object is put there where none was.
    pub fn params_mut(&mut self) -> Option<&mut Object> {
        if !self.body.contains("params") {
            self.body.insert("params", Json::Object(Object::default()));
        }
        self.body.get_mut("params").and_then(Json::as_object_mut)
    }

    /// One member of `params._meta`.
    pub fn meta(&self, name: &str) -> Option<&Json> {
        self.params()?.get("_meta")?.as_object()?.get(name)
    }

    /// The version that the body names; only modern messages do.
    pub fn version(&self) -> Option<&str> {
        self.meta(META_VERSION).and_then(Json::as_str)
    }

    /// What the call is about: a tool's name, a prompt's, a resource's URI, a task's id. `Mcp-Name` mirrors it.
    pub fn subject(&self) -> Option<&str> {
        let member = match self.method.as_str() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            method if method.starts_with("tasks/") => "taskId",
            _ => return None,
        };
        self.params()?.get(member)?.as_str()
    }

    /// What the client calls itself, unverified: `name/version`.
    pub fn client(&self) -> Option<String> {
        let info = self.meta(META_CLIENT).or_else(|| self.params()?.get("clientInfo"))?.as_object()?;
        let name = info.get("name").and_then(Json::as_str)?;
        Some(match info.get("version").and_then(Json::as_str) {
            Some(version) => format!("{name}/{version}"),
            None => name.to_owned(),
        })
    }
}

/// The id in a body that is no good as a message, where it has one all the same: the refusal bears it.
pub fn id_in(bytes: &[u8]) -> Option<Json> {
    let json = Json::parse(bytes, MAX_DEPTH).ok()?;
    json.get("id").filter(|id| is_id(id)).cloned()
}

/// Refuses a name that is not one of `known` and that a lenient reader takes for one: a backend that reads `Method` for
/// `method` would do what was not checked.
fn check_names(object: &Object, known: &[&str]) -> Result<(), Refusal> {
    for (name, _) in object.iter() {
        if known.contains(&name) {
            continue;
        }
        let plain = folded(name);
        if let Some(meant) = known.iter().find(|meant| folded(meant) == plain) {
            return Err(not_one(&format!("a member's name is almost \"{meant}\"")));
        }
    }
    Ok(())
}

fn is_id(id: &Json) -> bool {
    match id {
        Json::String(_) => true,
        Json::Number(number) => {
            let digits = number.as_str().strip_prefix('-').unwrap_or(number.as_str());
            digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => false,
    }
}

fn not_one(detail: &str) -> Refusal {
    Refusal::NotOneMessage { detail: detail.to_owned() }
}
