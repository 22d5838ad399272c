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

impl Court {
    #[expect(clippy::too_many_arguments, reason = "each is one thing that the audit row tells")]
    pub(super) fn facts(
        &self,
        head: &Head,
        policy: &Policy,
        name: &str,
        request: &Request,
        taken: &Result<Option<Key>, Refusal>,
        prints: &Fingerprints,
        arguments: Option<Result<Json, String>>,
        rule: Option<&Operation>,
    ) -> Facts {
        let actor = head.caller.actor();
        let no_paths = Redactor::default();
        let redactor = rule.map_or(&no_paths, Operation::redactor);
        let key = taken.as_ref().ok().and_then(Option::as_ref);
        let in_header = head.headers.get(VERSION).and_then(|value| value.to_str().ok());
        let version = request.version().or(in_header);
        let version = version.map_or_else(|| "mcp".to_owned(), |version| format!("mcp/{version}"));
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
            attempt_id: None,
            policy_version: Some(policy.version().to_owned()),
            trace_id: Some(head.asked.trace().id.clone()),
            protocol: Some(short(&version)),
            client: request.client().map(|client| short(&client)),
        }
    }
}

/// Names come from clients: what is written down of them is bounded, and free of what looks like a secret.
pub(in crate::layers) fn short(text: &str) -> String {
    mask_text(text).chars().take(128).collect()
}
