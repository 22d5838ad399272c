//! `oncegate claims resolve`: a person found out what became of an unknown call.
//!
//! Promises: [`ledger::resolve`] decides whether it may be; the write and its audit row (who, and why) are one
//! transaction; an owner that died while its claim was in flight gets its own row first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args};

use super::claims::Which;
use super::failure::Failure;
use super::open::Opened;
use super::screen;
use crate::config::ConfigFlags;
use crate::domain::answer::{self, Kept};
use crate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::ledger::{self, Claim, ClaimId, Resolution, ResolveFault};
use crate::domain::policy::{Kind, Operation};
use crate::domain::redact::{has_secret, note, text_has_secret};
use crate::domain::units::parse_duration;
use crate::mcp::found;
use crate::store::{Swap, Write, event_id};

/// The largest answer that is taken from a file, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The longest reason that the audit keeps, in characters.
const LONGEST_NOTE: usize = 1000;
/// How often the claim may change under the operator's hands.
const MOST_TRIES: usize = 5;

#[derive(Args)]
#[command(group(ArgGroup::new("outcome").required(true).args(["completed", "released"])))]
pub(super) struct Resolve {
    #[command(flatten)]
    which: Which,
    /// It ran: retries hear its answer, or that none was kept
    #[arg(long)]
    completed: bool,
    /// The answer that retries get: a file with a JSON object; of a route or a job, with its body
    ///
    /// What the app knows of the call, as in `{"refund":{"id":"re_1","amount_cents":1200}}`, or a tool's whole result, as in
    /// `{"content":[{"type":"text","text":"Refunded."}]}`. Masked as the policy says. A route's retry gets the file as the body
    /// of its answer: JSON of any kind, or text, or nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "released")]
    response: Option<PathBuf>,
    /// The HTTP status of that answer, where a plain route is meant [200]
    #[arg(long, value_name = "CODE", requires = "response", value_parser = clap::value_parser!(u16).range(200..600))]
    status: Option<u16>,
    /// It did not run: the same key may try again
    #[arg(long)]
    released: bool,
    /// Release it although the attempt may still be running
    #[arg(long, conflicts_with = "completed")]
    force: bool,
    /// Why, in at most 1000 characters; it goes into the audit
    #[arg(long, value_name = "TEXT", value_parser = because)]
    because: String,
    /// Who decides this; it goes into the audit
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true)]
    operator: Option<String>,
    /// How long the settled claim is remembered [the operation's ttl]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Resolve {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let operator = self.operator.as_deref().filter(|name| !name.trim().is_empty());
        let operator =
            operator.ok_or_else(|| Failure::usage("say who you are: --operator NAME (USER is not set)"))?;
        let opened = Opened::new(&self.config).await?;
        let id = self.which.find(&opened).await?.id;
        let policy = opened.policy_of(&id.service);
        let operation = match &policy {
            Ok(policy) => policy.operations().find(|operation| operation.name() == id.tool),
            // Where the caller says how long, the policy need not be at hand.
            Err(_) if self.ttl.is_some() && self.response.is_none() => None,
            Err(mistakes) => return Err(Failure::config(mistakes.clone())),
        };
        let ttl =
            self.ttl.or_else(|| Some(operation?.mutation()?.terms(Duration::ZERO).ttl)).ok_or_else(|| {
                Failure::failed(format!("the policy has no mutation `{}` any more; name a --ttl", id.tool))
            })?;
        let resolution = match &self.response {
            _ if self.released => Resolution::Released { force: self.force },
            None => Resolution::Completed { response: None },
            Some(path) => {
                let operation = operation.map(AsRef::as_ref);
                Resolution::Completed { response: Some(answer(path, self.status, operation)?) }
            }
        };
        for _ in 0..MOST_TRIES {
            let seen = opened.store.read(&id).await?;
            let row = seen.row.ok_or_else(|| Failure::failed("the claim is gone"))?;
            let dead = ledger::abandon(&row, seen.now);
            let is_last = dead.is_none();
            let event = if is_last {
                self.event(operator, &id, &row)
            } else {
                AuditEvent::abandoned(event_id(), row.facts.clone())
            };
            let resolved = || ledger::resolve(&row, &resolution, seen.now, ttl).map_err(refused);
            let (expect, next) = dead.map_or_else(resolved, Ok)?;
            let write = Write { id: id.clone(), expect, next, event: Some(event) };
            match opened.store.swap(write).await? {
                Swap::Applied { .. } if is_last => {
                    opened.store.close().await;
                    let outcome = match &resolution {
                        Resolution::Released { .. } => "released: the same key may try again",
                        Resolution::Completed { response: Some(_) } => "completed: retries get this answer",
                        Resolution::Completed { response: None } => {
                            "completed: retries hear that it ran, and that its answer was not kept"
                        }
                    };
                    return Ok(screen::show(&format!("The claim is {outcome}.\n"))?);
                }
                Swap::Applied { .. } | Swap::Mismatch { .. } => {}
            }
        }
        Err(Failure::failed("the claim kept changing; look at it again"))
    }

    fn event(&self, operator: &str, id: &ClaimId, row: &Claim) -> AuditEvent {
        let mut args =
            Json::object([("operator", Json::from(operator)), ("because", self.because.as_str().into())]);
        if let (true, Some(members)) = (self.force, args.as_object_mut()) {
            members.insert("forced", true);
        }
        let (reason, executed) = if self.released {
            ("resolved_released", Executed::No)
        } else {
            ("resolved_completed", Executed::Yes)
        };
        let facts = Facts {
            tenant_id: id.tenant.clone(),
            service: id.service.clone(),
            tool: id.tool.clone(),
            idempotency_key: Some(id.key.clone()),
            attempt_id: Some(row.attempt_id),
            args: Some(note(&args, LONGEST_NOTE)),
            session_id: None,
            policy_version: None,
            trace_id: None,
            protocol: Some("cli".to_owned()),
            client: Some(concat!("oncegate/", env!("CARGO_PKG_VERSION")).to_owned()),
            ..row.facts.clone()
        };
        event(facts, reason, executed)
    }
}

fn refused(fault: ResolveFault) -> Failure {
    match fault {
        ResolveFault::MayStillRun(_) => Failure::failed(format!(
            "{fault}; wait, or release it with --force: a retry may then run it twice"
        )),
        ResolveFault::NotUnknown(_) | ResolveFault::StillOwned(_) => Failure::failed(fault),
    }
}

fn event(facts: Facts, reason: &str, executed: Executed) -> AuditEvent {
    AuditEvent {
        id: event_id(),
        facts,
        decision: Decision::Allowed,
        reason: Some(reason.to_owned()),
        result_summary: None,
        duration_ms: None,
        executed,
        upstream_status: None,
    }
}

/// A reason of one line that the audit keeps whole.
fn because(text: &str) -> Result<String, String> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.chars().count() {
        0 => Err("say why, in a sentence".to_owned()),
        long if long > LONGEST_NOTE => {
            Err(format!("it has {long} characters, and the audit keeps {LONGEST_NOTE}"))
        }
        _ => Ok(line),
    }
}

/// The answer in a file, as the ledger keeps it: in a form that clients can read, redacted like any other, and refused where a secret remains.
fn answer(path: &Path, status: Option<u16>, operation: Option<&Operation>) -> Result<Bytes, Failure> {
    let fault = |what: &str| Failure::failed(format!("{} {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| fault(&format!("cannot be read: {error}")))?;
    if bytes.len() > MAX_ANSWER_BYTES {
        return Err(fault("is larger than 1 MiB"));
    }
    let kind = operation.map_or(Kind::Tool, Operation::kind);
    if let (Some(_), Kind::Tool | Kind::Method | Kind::Job) = (status, kind) {
        return Err(Failure::usage("--status is for plain routes: no other answer has one"));
    }
    let found = Json::parse(&bytes, MAX_DEPTH);
    let (mut kept, has_secret) = match (kind, found) {
        (Kind::Route, Err(_)) => as_text(bytes).map_err(fault)?,
        (_, Err(error)) => return Err(fault(&format!("is not JSON: {error}"))),
        (kind, Ok(found)) => {
            if let (Kind::Tool | Kind::Method, Some(wrong)) = (kind, no_result(&found)) {
                return Err(fault(wrong));
            }
            let (kept, value) = found::kept(operation, found);
            (kept, has_secret(&value))
        }
    };
    if has_secret {
        return Err(fault("holds what looks like a secret; resolve without --response"));
    }
    kept.status = status.unwrap_or(kept.status);
    Ok(kept.encode())
}

/// What is wrong with a value as a call's result.
fn no_result(found: &Json) -> Option<&'static str> {
    match found.as_object() {
        None => Some("does not hold a JSON object, as the `result` of a call is"),
        Some(message) if message.contains("jsonrpc") => {
            Some("holds a whole JSON-RPC message; give the object in its `result`")
        }
        Some(_) => None,
    }
}

/// A body that is no JSON, and whether a secret is in it.
fn as_text(bytes: Vec<u8>) -> Result<(Kept, bool), &'static str> {
    let text = String::from_utf8(bytes).map_err(|_| "is neither JSON nor text in UTF-8")?;
    let has_secret = text_has_secret(&text);
    let kind = ("content-type".to_owned(), "text/plain; charset=utf-8".to_owned());
    let headers = if text.is_empty() { Vec::new() } else { vec![kind] };
    Ok((Kept { kind: answer::Kind::Plain, status: 200, headers, body: text.into() }, has_secret))
}
