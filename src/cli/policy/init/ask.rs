//! Asks an MCP server for the list of its tools.
//!
//! Promises: both protocol eras are spoken: each request by itself first, and where that is refused, a session that is
//! ended afterwards. Pages are followed, JSON and event streams read; time, size and pages are bounded.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::cli::failure::Failure;
use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::mcp::collect::{Media, media};
use crate::mcp::message::FIRST_MODERN;
use crate::mcp::sse::Decoder;
use crate::tls::Trust;
use crate::upstream::{Reach, Upstream};

const LEGACY: &str = "2025-11-25";
const PATIENCE: Duration = Duration::from_secs(30);
const MOST_BYTES: usize = 8 << 20;
const MOST_PAGES: usize = 100;

/// A server, and what it is told with each request.
pub(super) struct Server {
    upstream: Upstream,
    url: Uri,
    headers: HeaderMap,
}

/// What it answered.
struct Answer {
    status: u16,
    session: Option<HeaderValue>,
    /// The JSON-RPC response, where there is one.
    reply: Option<Json>,
}

impl Server {
    pub(super) fn new(
        url: &str,
        token: Option<&str>,
        more: &[String],
        ca_file: Option<&Path>,
    ) -> Result<Self, Failure> {
        let fault = || Failure::usage(format!("--from: \"{url}\" is not an http or https URL"));
        let uri: Uri = url.parse().map_err(|_| fault())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(fault());
        }
        let mut headers = HeaderMap::new();
        for text in more {
            let fault = || Failure::usage("--header: write it as \"Name: value\"");
            let (name, value) = text.split_once(':').ok_or_else(fault)?;
            let name: HeaderName = name.trim().parse().map_err(|_| fault())?;
            headers.append(name, value.trim().parse().map_err(|_| fault())?);
        }
        if let Some(token) = token {
            let value = format!("Bearer {}", token.trim());
            let mut value: HeaderValue =
                value.parse().map_err(|_| Failure::usage("--token: it is no token"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let trust = Trust::read(ca_file).map_err(Failure::config)?;
        let reach = Reach { max_idle: Duration::from_secs(1), connect_timeout: Duration::from_secs(5) };
        Ok(Self { upstream: Upstream::new(&reach, trust), url: uri, headers })
    }

    /// Every tool that it lists.
    pub(super) async fn tools(&self) -> Result<Vec<Json>, Failure> {
        if let Some(tools) = self.pages(&HeaderMap::new(), true).await? {
            return Ok(tools);
        }
        let asked = Json::object([
            ("protocolVersion", Json::from(LEGACY)),
            ("capabilities", Json::Object(Object::new())),
            ("clientInfo", client()),
        ]);
        let answer = self.ask("initialize", asked, 1, &HeaderMap::new()).await?;
        let result = answer.result().ok_or_else(|| answer.fault("it does not begin a session"))?;
        let version = result.get("protocolVersion").and_then(Json::as_str).unwrap_or(LEGACY);
        let mut headers = HeaderMap::new();
        if let Ok(version) = version.parse() {
            headers.insert("mcp-protocol-version", version);
        }
        if let Some(session) = answer.session.clone() {
            headers.insert("mcp-session-id", session);
        }
        let note =
            Json::object([("jsonrpc", Json::from("2.0")), ("method", "notifications/initialized".into())]);
        self.send(&Method::POST, note.to_bytes().into(), &headers).await?;
        let tools = self.pages(&headers, false).await;
        if answer.session.is_some() {
            // A server that keeps its sessions ends this one by itself.
            let _ended = self.send(&Method::DELETE, Bytes::new(), &headers).await.is_ok();
        }
        tools?.ok_or_else(|| Failure::failed(format!("{} lists no tools", self.url)))
    }

    /// The pages of the list; none where the first one is refused.
    async fn pages(&self, headers: &HeaderMap, modern: bool) -> Result<Option<Vec<Json>>, Failure> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for page in 0..MOST_PAGES {
            let mut params = Object::new();
            if let Some(cursor) = &cursor {
                params.insert("cursor", cursor.as_str());
            }
            let mut headers = headers.clone();
            if modern {
                headers.insert("mcp-protocol-version", HeaderValue::from_static(FIRST_MODERN));
                headers.insert("mcp-method", HeaderValue::from_static("tools/list"));
                let of = |name: &str| format!("io.modelcontextprotocol/{name}");
                let mut meta = Object::new();
                meta.insert(of("protocolVersion"), FIRST_MODERN);
                meta.insert(of("clientCapabilities"), Json::Object(Object::new()));
                meta.insert(of("clientInfo"), client());
                params.insert("_meta", Json::Object(meta));
            }
            let id = i64::try_from(page).unwrap_or(0) + 2;
            let answer = self.ask("tools/list", Json::Object(params), id, &headers).await?;
            let Some(result) = answer.result() else {
                if modern && page == 0 {
                    return Ok(None);
                }
                return Err(answer.fault("it does not list its tools"));
            };
            let listed = result.get("tools").and_then(Json::as_array);
            let listed = listed.ok_or_else(|| answer.fault("its answer has no tools in it"))?;
            tools.extend_from_slice(listed);
            cursor = result.get("nextCursor").and_then(Json::as_str).map(str::to_owned);
            if cursor.is_none() {
                return Ok(Some(tools));
            }
        }
        Err(Failure::failed(format!("{} has more than {MOST_PAGES} pages of tools", self.url)))
    }

    async fn ask(&self, method: &str, params: Json, id: i64, headers: &HeaderMap) -> Result<Answer, Failure> {
        let id = Json::from(id);
        let request = Json::object([
            ("jsonrpc", Json::from("2.0")),
            ("id", id.clone()),
            ("method", method.into()),
            ("params", params),
        ]);
        let response = self.send(&Method::POST, request.to_bytes().into(), headers).await?;
        let status = response.status().as_u16();
        if matches!(status, 401 | 403) {
            let message =
                format!("{} answers {status}: give it a token (--token), or a header (--header)", self.url);
            return Err(Failure::failed(message));
        }
        let session = response.headers().get("mcp-session-id").cloned();
        let kind = media(response.headers());
        let reply = timeout(PATIENCE, reply(response.into_body(), &kind, &id)).await;
        let reply = reply.map_err(|_| Failure::failed(format!("{} answers too slowly", self.url)))?;
        Ok(Answer { status, session, reply })
    }

    async fn send(
        &self,
        method: &Method,
        body: Bytes,
        more: &HeaderMap,
    ) -> Result<Response<Incoming>, Failure> {
        let mut headers = self.headers.clone();
        headers.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        let sent = timeout(PATIENCE, self.upstream.send(method, &self.url, &headers, &body)).await;
        let sent = sent.map_err(|_| Failure::failed(format!("{} does not answer", self.url)))?;
        sent.map_err(Failure::failed)
    }
}

impl Answer {
    fn result(&self) -> Option<&Json> {
        self.reply.as_ref()?.get("result")
    }

    fn fault(&self, what: &str) -> Failure {
        let error =
            self.reply.as_ref().and_then(|reply| reply.path(&["error", "message"])).and_then(Json::as_str);
        let said = error.map(|error| format!(": {error}")).unwrap_or_default();
        Failure::failed(format!(
            "this is no MCP endpoint that can be read: {what} (HTTP {}{said})",
            self.status
        ))
    }
}

fn client() -> Json {
    Json::object([("name", Json::from("oncegate")), ("version", env!("CARGO_PKG_VERSION").into())])
}

/// The response with this id; none where none comes.
async fn reply(mut body: Incoming, kind: &Media, id: &Json) -> Option<Json> {
    let is_it = |json: &Json| json.get("id") == Some(id) && json.get("method").is_none();
    let mut events = Decoder::new(MOST_BYTES);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame.ok()?.into_data() else { continue };
        if *kind == Media::Events {
            for event in events.feed(&chunk).ok()? {
                let json = event.data.and_then(|data| Json::parse(data.as_bytes(), MAX_DEPTH).ok());
                if let Some(reply) = json.filter(is_it) {
                    return Some(reply);
                }
            }
        } else if bytes.len() + chunk.len() <= MOST_BYTES {
            bytes.extend_from_slice(&chunk);
        } else {
            return None;
        }
    }
    Json::parse(&bytes, MAX_DEPTH).ok().filter(is_it)
}
