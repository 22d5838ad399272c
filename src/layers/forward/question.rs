//! The gate's own question to the app: what became of a call.
//!
//! Promises: it is asked of a tool that reads, or by GET, in the name of the claim's own actor and without a token, and
//! in the protocol version in which the call itself was made; whoever is asked in the legacy era is greeted first, and
//! a session that it opens is ended. What cannot be read is no answer.
//!
//! Absent on purpose: what an answer proves ([`crate::domain::policy::Reconcile`]); asking again; resuming a stream that
//! broke off; headers that mirror a tool's arguments, which only a tools list could tell.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri};
use hyper::body::Incoming;
use tracing::debug;

use super::Road;
use crate::domain::actor::Actor;
use crate::domain::audit::Facts;
use crate::domain::chain::Chain;
use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::domain::policy::Question;
use crate::mcp::collect::{Media, collect, media};
use crate::mcp::events::Events;
use crate::mcp::headers::{METHOD, NAME, VERSION};
use crate::mcp::judge::{Reply, reply_to};
use crate::mcp::message::{FIRST_MODERN, META_CAPABILITIES, META_CLIENT, META_VERSION};
use crate::upstream::SendFault;
use crate::upstream::headers::{SESSION_ID, outbound};

/// The version in which a legacy client speaks that names none.
const OLDEST: &str = "2025-03-26";

/// What the claim's facts say before the version.
const PROTOCOL: &str = "mcp/";

/// What the app said.
#[derive(Clone, Debug)]
pub(in crate::layers) enum Answered {
    /// A tool's result.
    Tool(Object),
    /// A route's answer: its status, and its body where that is JSON.
    Http(u16, Option<Json>),
}

/// Why there is no answer that could be read.
#[derive(Debug, thiserror::Error)]
pub(in crate::layers) enum Unanswered {
    /// It was not sent, or nothing came back.
    #[error("the app did not answer")]
    Silent(#[source] SendFault),
    /// No request can be made of it.
    #[error("the question cannot be asked")]
    Unsendable,
    /// Something else came.
    #[error("the app answered with status {0}, and not with a result")]
    Unclear(u16),
}

impl Road {
    /// Asks. The caller bounds the time.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a legacy session at the app, which ends it by itself.
    pub(in crate::layers) async fn question(
        &self,
        question: &Question,
        actor: &Actor,
        facts: &Facts,
    ) -> Result<Answered, Unanswered> {
        match question {
            Question::Get { path } => self.get_answer(path, actor, facts).await,
            Question::Tool { name, arguments } => {
                let version = facts.protocol.as_deref().and_then(|text| text.strip_prefix(PROTOCOL));
                let version = version.unwrap_or(OLDEST);
                let result = if version >= FIRST_MODERN {
                    self.modern(name, arguments, version, actor, facts).await
                } else {
                    self.legacy(name, arguments, version, actor, facts).await
                };
                result.map(Answered::Tool)
            }
        }
    }

    async fn get_answer(&self, path: &str, actor: &Actor, facts: &Facts) -> Result<Answered, Unanswered> {
        let mut parts = self.endpoint.clone().into_parts();
        parts.path_and_query = Some(path.parse().map_err(|_| Unanswered::Unsendable)?);
        let uri = Uri::from_parts(parts).map_err(|_| Unanswered::Unsendable)?;
        let mut headers = self.own_headers(actor, facts);
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let sent = self.upstream.send(&Method::GET, &uri, &headers, &Bytes::new()).await;
        let (parts, body) = sent.map_err(Unanswered::Silent)?.into_parts();
        let status = parts.status.as_u16();
        let collected = collect(Media::Other, body, &Json::Null).await.ok_or(Unanswered::Unclear(status))?;
        let is_json = is_json(&parts.headers);
        let json = is_json.then(|| Json::parse(&collected.bytes, MAX_DEPTH).ok()).flatten();
        Ok(Answered::Http(status, json))
    }

    async fn modern(
        &self,
        name: &str,
        arguments: &Object,
        version: &str,
        actor: &Actor,
        facts: &Facts,
    ) -> Result<Object, Unanswered> {
        let meta = Json::object([
            (META_VERSION, Json::from(version)),
            (META_CLIENT, client_info()),
            (META_CAPABILITIES, Json::Object(Object::new())),
        ]);
        let mut headers = self.own_headers(actor, facts);
        put(&mut headers, VERSION, version)?;
        put(&mut headers, METHOD, CALL)?;
        put(&mut headers, NAME, name)?;
        self.call(&headers, call(name, arguments, Some(meta))).await
    }

    /// A greeting, the call, a farewell.
    async fn legacy(
        &self,
        name: &str,
        arguments: &Object,
        version: &str,
        actor: &Actor,
        facts: &Facts,
    ) -> Result<Object, Unanswered> {
        let mut headers = self.own_headers(actor, facts);
        let params = Json::object([
            ("protocolVersion", Json::from(version)),
            ("capabilities", Json::Object(Object::new())),
            ("clientInfo", client_info()),
        ]);
        let greeting = self.post(&headers, &message(Some("greeting"), "initialize", params)).await?;
        let session = greeting.headers().get(SESSION_ID).cloned();
        let greeted = result_of(greeting, &Json::from("greeting")).await?;
        let agreed = greeted.get("protocolVersion").and_then(Json::as_str).unwrap_or(version);
        put(&mut headers, VERSION, agreed)?;
        if let Some(session) = &session {
            headers.insert(SESSION_ID, session.clone());
        }
        let ready = message(None, "notifications/initialized", Json::Object(Object::new()));
        drop(self.post(&headers, &ready).await?);
        let result = self.call(&headers, call(name, arguments, None)).await;
        if session.is_some() {
            headers.remove(CONTENT_TYPE);
            let ended = self.upstream.send(&Method::DELETE, &self.endpoint, &headers, &Bytes::new()).await;
            if let Err(fault) = ended {
                debug!(error = %Chain(&fault), "The session of a question was not ended.");
            }
        }
        result
    }

    async fn call(&self, headers: &HeaderMap, body: Json) -> Result<Object, Unanswered> {
        let response = self.post(headers, &body).await?;
        result_of(response, body.get("id").unwrap_or(&Json::Null)).await
    }

    async fn post(&self, headers: &HeaderMap, body: &Json) -> Result<Response<Incoming>, Unanswered> {
        let body = Bytes::from(body.to_bytes());
        let sent = self.upstream.send(&Method::POST, &self.endpoint, headers, &body).await;
        sent.map_err(Unanswered::Silent)
    }

    /// As those of the claim's own call, in the same trace; nobody's token goes along.
    fn own_headers(&self, actor: &Actor, facts: &Facts) -> HeaderMap {
        let nobody = HeaderMap::new();
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let span = uuid::Uuid::new_v4().simple().to_string();
        let span = span.get(..16).unwrap_or_default();
        let trace = facts.trace_id.as_deref().unwrap_or_default();
        let mut headers = outbound(&nobody, &self.front, here, actor, &format!("00-{trace}-{span}-01"), None);
        if trace.len() != 32 {
            headers.remove("traceparent");
        }
        headers.insert(http::header::USER_AGENT, HeaderValue::from_static(OURSELVES));
        headers
    }
}

/// What the gate calls itself.
const OURSELVES: &str = concat!("oncegate/", env!("CARGO_PKG_VERSION"));

const CALL: &str = "tools/call";

fn client_info() -> Json {
    Json::object([("name", Json::from("oncegate")), ("version", env!("CARGO_PKG_VERSION").into())])
}

fn call(name: &str, arguments: &Object, meta: Option<Json>) -> Json {
    let members = [("name", Json::from(name)), ("arguments", Json::Object(arguments.clone()))];
    let params = Json::object(members.into_iter().chain(meta.map(|meta| ("_meta", meta))));
    message(Some("question"), CALL, params)
}

fn message(id: Option<&str>, method: &str, params: Json) -> Json {
    let id = id.map(|id| ("id", Json::from(id)));
    let rest = [("method", Json::from(method)), ("params", params)];
    Json::object([("jsonrpc", Json::from("2.0"))].into_iter().chain(id).chain(rest))
}

/// A value that no header can hold is a question that cannot be asked.
fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) -> Result<(), Unanswered> {
    headers.insert(name, HeaderValue::from_str(text).map_err(|_| Unanswered::Unsendable)?);
    Ok(())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// The result in a response, on a stream or not.
async fn result_of(response: Response<Incoming>, id: &Json) -> Result<Object, Unanswered> {
    let (parts, body) = response.into_parts();
    let unclear = Unanswered::Unclear(parts.status.as_u16());
    let kind = media(&parts.headers);
    let reply = if kind == Media::Events {
        let mut events = Events::of(body);
        loop {
            let Ok(Some(event)) = events.next().await else { return Err(unclear) };
            let json = event.data.and_then(|data| Json::parse(data.as_bytes(), MAX_DEPTH).ok());
            if let Some(reply) = json.and_then(|json| reply_to(json, id, false)) {
                break Some(reply);
            }
        }
    } else {
        collect(kind, body, id).await.and_then(|collected| collected.reply)
    };
    match reply {
        Some(Reply::Result(result)) if parts.status.is_success() => Ok(result),
        Some(Reply::Result(_) | Reply::Error(_)) | None => Err(unclear),
    }
}
