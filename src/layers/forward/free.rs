//! Calls that need no claim: reads, and housekeeping.
//!
//! Promises: a read's result is masked as the policy says; a tools list shows what the actor may call, and how; what
//! the upstream says otherwise passes as it is, except where it would end a client's session for no reason.
//!
//! Absent on purpose: any record of what passed. A read's row is written by the step outside.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::edits::Edit;
use super::{Forwarded, Note, Road, SendFault};
use crate::domain::json::Json;
use crate::domain::policy::{Operation, Policy};
use crate::domain::refusal::Refusal;
use crate::layers::parse::Head;
use crate::mcp::collect::{Collected, Media, collect, media};
use crate::mcp::errors;
use crate::mcp::judge::Reply;
use crate::mcp::message::{Era, Message, Request};
use crate::upstream::headers;
use crate::wire::envelope::{AnyError, Body, full};
use crate::wire::render::{respond, rpc};

impl Road {
    /// A read that the policy names.
    pub(super) async fn read(
        &self,
        head: &Head,
        request: &Request,
        operation: &Arc<Operation>,
    ) -> Result<Forwarded, Refusal> {
        let sealer = self.sealer(head, Some(operation).filter(|_| head.tasks.elsewhere));
        let id = request.id.clone().unwrap_or(Json::Null);
        let response = self.ask(head, Json::Object(request.body.clone()).to_bytes()).await?;
        let (parts, body) = response.into_parts();
        let kind = media(&parts.headers);
        let mut note = Note { status: parts.status.as_u16(), ..Note::default() };
        if kind == Media::Events && !operation.reads_results() && head.tasks.elsewhere {
            return Ok(Forwarded::Passed { response: self.stream(head, &parts, body), note });
        }
        let collected = self.collect(kind, body, &id).await?;
        let Some(reply) = collected.reply else {
            return Ok(Forwarded::Passed { response: self.unguarded(head, &parts, collected)?, note });
        };
        let (member, value) = match reply {
            Reply::Error(error) => ("error", Json::Object(error)),
            Reply::Result(result) => {
                let mut result = result;
                sealer.result(&mut result);
                let mut result = Json::Object(result);
                for operation in std::iter::once(operation).chain(&head.tasks.also) {
                    operation.redactor().mask_result(&mut result);
                }
                let told = sealer.told(&result);
                note.summary = operation.summary_of(told);
                note.reason = told
                    .as_object()
                    .and_then(errors::code_of)
                    .and_then(|code| operation.reason_for(&code).map(str::to_owned));
                ("result", result)
            }
        };
        let response = self.rewritten(head, &parts, member, value, id);
        Ok(Forwarded::Passed { response, note })
    }

    /// What is done to a task, whose answer is short.
    pub(super) async fn act(&self, head: &Head, request: &Request) -> Result<Forwarded, Refusal> {
        let id = request.id.clone().unwrap_or(Json::Null);
        let lost = |refusal| if refusal == Refusal::ReadFailed { Refusal::TaskActLost } else { refusal };
        let response = self.ask(head, Json::Object(request.body.clone()).to_bytes()).await.map_err(lost)?;
        let (parts, body) = response.into_parts();
        let note = Note { status: parts.status.as_u16(), ..Note::default() };
        let collected = self.collect(media(&parts.headers), body, &id).await.map_err(lost)?;
        let response = match collected.reply {
            Some(Reply::Result(mut result)) => {
                self.sealer(head, None).result(&mut result);
                self.rewritten(head, &parts, "result", Json::Object(result), id)
            }
            Some(Reply::Error(error)) => self.rewritten(head, &parts, "error", Json::Object(error), id),
            None => self.unguarded(head, &parts, collected).map_err(lost)?,
        };
        Ok(Forwarded::Passed { response, note })
    }

    /// Housekeeping. A tools list is filtered; the rest passes.
    pub(super) async fn pass(
        &self,
        head: &Head,
        message: Message,
        policy: &Policy,
    ) -> Result<Forwarded, Refusal> {
        let lists_tasks = matches!(&message, Message::Request(request) if request.method == "tasks/list");
        let (id, edit, body) = match message {
            Message::Request(request) => (request.id.clone(), Edit::of(&request.method), request.body),
            Message::Notification(request) => (None, None, request.body),
            Message::Response(body) => (None, None, body),
        };
        let response = self.ask(head, Json::Object(body).to_bytes()).await?;
        let (parts, body) = response.into_parts();
        let note = Note { status: parts.status.as_u16(), ..Note::default() };
        let kind = media(&parts.headers);
        let Some(id) = id else {
            return Ok(Forwarded::Passed { response: self.stream(head, &parts, body), note });
        };
        if kind == Media::Events && edit.is_none() && !lists_tasks {
            return Ok(Forwarded::Passed { response: self.stream(head, &parts, body), note });
        }
        let collected = self.collect(kind, body, &id).await?;
        let response = match (collected.reply, edit) {
            (Some(Reply::Result(mut result)), Some(edit)) => {
                let modern = head.era == Era::Modern;
                self.editor.edit(edit, &mut result, policy, head.caller.actor(), modern);
                self.rewritten(head, &parts, "result", Json::Object(result), id)
            }
            (Some(Reply::Result(mut result)), None) if lists_tasks => {
                self.sealer(head, None).result(&mut result);
                self.rewritten(head, &parts, "result", Json::Object(result), id)
            }
            (Some(Reply::Error(error)), _) if kind == Media::Events => {
                self.rewritten(head, &parts, "error", Json::Object(error), id)
            }
            (reply, _) => {
                let collected = Collected { reply, ..collected };
                self.unguarded(head, &parts, collected)?
            }
        };
        Ok(Forwarded::Passed { response, note })
    }

    async fn ask(&self, head: &Head, body: Vec<u8>) -> Result<Response<Incoming>, Refusal> {
        let response =
            match tokio::time::timeout(self.timeout, self.send(head, Bytes::from(body), None)).await {
                Ok(Ok(response)) => response,
                Ok(Err(SendFault::NotSent(_))) => return Err(Refusal::UpstreamUnreachable),
                Ok(Err(SendFault::Lost(_))) | Err(_) => return Err(Refusal::ReadFailed),
            };
        // Told in the gate's own words, whatever its body is: both would name the upstream's inner address.
        let scope = || headers::challenged_scope(response.headers());
        match (response.status(), self.front.forward_authorization) {
            (StatusCode::UNAUTHORIZED, true) => Err(Refusal::UpstreamUnauthorized { scope: scope() }),
            (StatusCode::FORBIDDEN, true) => Err(Refusal::UpstreamForbidden { scope: scope() }),
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, false) => {
                Err(Refusal::ExecutionFailed { detail: None })
            }
            _ => Ok(response),
        }
    }

    async fn collect(&self, kind: Media, body: Incoming, id: &Json) -> Result<Collected, Refusal> {
        let collected = tokio::time::timeout(self.timeout, collect(kind, body, id)).await;
        collected.ok().filter(|collected| collected.whole).ok_or(Refusal::ReadFailed)
    }

    /// An answer as it came, if a client can live with it: a JSON-RPC response with any status, or a status by which
    /// servers turn a request away (a lost session's 404, a version's 400). The rest would only break the client.
    fn unguarded(
        &self,
        head: &Head,
        parts: &http::response::Parts,
        collected: Collected,
    ) -> Result<Response<Body>, Refusal> {
        let status = parts.status;
        if collected.reply.is_none() && !status.is_client_error() {
            return Err(Refusal::ReadFailed);
        }
        let mut response = Response::new(full(collected.bytes));
        *response.status_mut() = status;
        *response.headers_mut() = self.passed(head, &parts.headers);
        Ok(response)
    }

    /// A response that goes through as it comes.
    fn stream(&self, head: &Head, parts: &http::response::Parts, body: Incoming) -> Response<Body> {
        let mut response = Response::new(body.map_err(AnyError::from).boxed_unsync());
        *response.status_mut() = parts.status;
        *response.headers_mut() = self.passed(head, &parts.headers);
        response
    }

    /// A response whose member was changed: the upstream's status and headers, our bytes.
    fn rewritten(
        &self,
        head: &Head,
        parts: &http::response::Parts,
        member: &str,
        value: Json,
        id: Json,
    ) -> Response<Body> {
        let ours = respond(parts.status.as_u16(), &rpc(Some(id), member, value));
        let (mut ours, body) = ours.into_parts();
        let mut headers = self.passed(head, &parts.headers);
        headers.remove(http::header::ETAG);
        headers.extend(std::mem::take(&mut ours.headers));
        ours.headers = headers;
        Response::from_parts(ours, body)
    }
}
