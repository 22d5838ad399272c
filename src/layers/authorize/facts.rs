//! What the row of a call will say of it before it is decided.
//!
//! Promises: bounded and redacted: by the rule of the call's own operation, and of secrets wherever they stand.

use super::Court;
use crate::domain::audit::Facts;
use crate::domain::fingerprint::Fingerprints;
use crate::domain::json::Json;
use crate::domain::key::Key;
use crate::domain::policy::{Operation, Policy};
use crate::domain::redact::{Redactor, mask_text};
use crate::domain::refusal::Refusal;
use crate::layers::parse::Head;
use crate::mcp::headers::VERSION;
use crate::mcp::message::Request;

/// What a call tells of itself, whatever way it came.
pub(super) struct Told<'a> {
    /// Its operation's name, or what it asked for in place of one.
    pub(super) name: &'a str,
    /// Its operation's rule.
    pub(super) rule: Option<&'a Operation>,
    /// The key that was taken out of it.
    pub(super) taken: &'a Result<Option<Key>, Refusal>,
    /// The fingerprints of what remained.
    pub(super) prints: &'a Fingerprints,
    /// That, or what stands in its place.
    pub(super) arguments: Option<Result<Json, String>>,
    /// By which protocol it came.
    pub(super) protocol: &'a str,
    /// What its client calls itself.
    pub(super) client: Option<&'a str>,
}

impl Court {
    pub(super) fn facts(&self, head: &Head, policy: &Policy, told: Told<'_>) -> Facts {
        let Told { name, rule, taken, prints, arguments, protocol, client } = told;
        let actor = head.caller.actor();
        let no_paths = Redactor::default();
        let redactor = rule.map_or(&no_paths, Operation::redactor);
        let key = taken.as_ref().ok().and_then(Option::as_ref);
        Facts {
            tenant_id: actor.tenant().to_owned(),
            service: self.service.clone(),
            user_id: actor.user().to_owned(),
            session_id: actor.session().map(str::to_owned),
            tool: short(name),
            args_hash: Some(prints.signed.clone()),
            args: arguments.map(|arguments| match arguments {
                Ok(arguments) => redactor.audit_arguments(&arguments),
                Err(instead) => instead,
            }),
            idempotency_key: key.map(|key| key.as_str().to_owned()),
            forwarded_key: None,
            handed_out: None,
            span_id: None,
            attempt_id: None,
            policy_version: Some(policy.version().to_owned()),
            trace_id: Some(head.asked.trace().id.clone()),
            protocol: Some(short(protocol)),
            client: client.map(short),
        }
    }
}

/// The protocol of a message: what it says itself, or its header.
pub(super) fn protocol_of(head: &Head, request: &Request) -> String {
    let in_header = head.headers.get(VERSION).and_then(|value| value.to_str().ok());
    let version = request.version().or(in_header);
    version.map_or_else(|| "mcp".to_owned(), |version| format!("mcp/{version}"))
}

/// Names come from clients: what is written down of them is bounded, and free of what looks like a secret.
pub(in crate::layers) fn short(text: &str) -> String {
    mask_text(text).chars().take(128).collect()
}
