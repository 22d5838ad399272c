//! `oncegate policy explain`: why a call would be allowed, or denied.
//!
//! Promises: nothing is sent and nothing is stored; a token is judged as the gate judges it, with the configured keys; the
//! exit code is 0 where the call would be allowed, and 1 where it would not.
//!
//! Absent on purpose: the ledger. `oncegate story` tells what became of a key.

use clap::Args;
use serde_json::json;

use super::{Folder, pretty, read, text_of};
use crate::app::token_settings;
use crate::auth::{UnixSeconds, Verifier};
use crate::cli::alone;
use crate::cli::failure::Failure;
use crate::cli::screen::{plain, show};
use crate::config::Layers;
use crate::domain::actor::Actor;
use crate::domain::json::{Json, MAX_DEPTH, Object};
use crate::domain::policy::{Asking, Explanation, Kind};
use crate::domain::refusal::Refusal;
use crate::wire;

/// Who calls, and what.
#[derive(Args)]
pub(in crate::cli) struct Explain {
    /// The caller's token, or @FILE, or - for standard input
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["tenant", "user", "scopes", "session"])]
    token: Option<String>,
    /// The tenant, where there is no token
    #[arg(long, required_unless_present = "token")]
    tenant: Option<String>,
    /// The user, where there is no token
    #[arg(long, required_unless_present = "token")]
    user: Option<String>,
    /// Scopes, where there is no token: may be repeated, or hold several
    #[arg(long = "scope", value_name = "SCOPES")]
    scopes: Vec<String>,
    /// The session, where there is no token
    #[arg(long)]
    session: Option<String>,
    #[command(flatten)]
    what: What,
    /// The arguments: a JSON object, or @FILE, or - for standard input; of a plain request the fields of its body, or of
    /// its query where it has none
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// The idempotency key, however it comes
    #[arg(long)]
    key: Option<String>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: Folder,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct What {
    /// A tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Another MCP method
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// A job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// A plain request: "POST /api/orders/o1/refunds"
    #[arg(long, value_name = "LINE")]
    request: Option<String>,
}

/// Who calls, and how that is known.
struct Caller {
    actor: Actor,
    until: Option<UnixSeconds>,
}

impl Explain {
    pub(super) fn run(self) -> Result<(), Failure> {
        let caller = match self.caller()? {
            Ok(caller) => caller,
            Err(refusal) => return self.refused(&refusal),
        };
        let arguments = arguments(&self.args)?;
        let policy = read(&self.folder.one()?)?;
        let service =
            Layers::load(&self.folder.config).ok().and_then(|layers| layers.service().ok().flatten());
        let named =
            [(Kind::Tool, &self.what.tool), (Kind::Method, &self.what.method), (Kind::Job, &self.what.job)];
        let named = named.into_iter().find_map(|(kind, name)| Some((kind, name.as_deref()?)));
        let asking = match (named, &self.what.request) {
            (Some((kind, name)), _) => Asking::named(caller.actor, kind, name, arguments, self.key.clone()),
            (None, line) => {
                let line = line.as_deref().unwrap_or_default();
                Asking::request(caller.actor, line, arguments, self.key.clone())
                    .map_err(|(message, help)| Failure::usage(format!("--request: {message}; {help}")))?
            }
        };
        let explanation = asking.explain(&policy, service.as_deref().unwrap_or("SERVICE"));
        let text = if self.json {
            in_json(&explanation, policy.version(), caller.until)
        } else {
            in_words(&explanation, policy.version(), caller.until)
        };
        show(&text)?;
        match explanation.reason {
            None => Ok(()),
            Some(reason) if explanation.observed => {
                Err(Failure::failed(format!("denied ({reason}); only observed, so the call goes on")))
            }
            Some(reason) => Err(Failure::failed(format!("denied ({reason})"))),
        }
    }

    /// Who calls; or for what the token is refused.
    fn caller(&self) -> Result<Result<Caller, Refusal>, Failure> {
        let Some(token) = &self.token else {
            let tenant = self.tenant.as_deref().unwrap_or_default();
            let user = self.user.as_deref().unwrap_or_default();
            let scopes = self.scopes.iter().flat_map(|several| several.split_whitespace()).map(str::to_owned);
            let actor = Actor::new(tenant, user, self.session.as_deref(), scopes).map_err(Failure::usage)?;
            return Ok(Ok(Caller { actor, until: None }));
        };
        let token = text_of(token, "--token")?;
        let auth = Layers::load(&self.folder.config).and_then(|layers| layers.auth());
        let settings = token_settings(auth.map_err(Failure::config)?);
        let verifier = Verifier::new(settings).map_err(Failure::config)?;
        let mut found = Err(Refusal::NoToken);
        alone(async {
            found = verifier.verify(token.trim()).await.map_err(Refusal::from);
            Ok(())
        })?;
        Ok(found.map(|verified| Caller { actor: verified.actor().clone(), until: Some(verified.until()) }))
    }

    /// The token is none that the gate takes.
    fn refused(&self, refusal: &Refusal) -> Result<(), Failure> {
        let row = wire::row(refusal);
        let text = if self.json {
            let step = json!({ "about": "token", "holds": false, "says": [row.text] });
            let told =
                json!({ "decision": "denied", "reason": row.reason, "observed": false, "steps": [step] });
            pretty(&told)
        } else {
            format!("{:<11} no: {}\n", "token", plain(&row.text))
        };
        show(&text)?;
        Err(Failure::failed(format!("denied ({})", row.reason)))
    }
}

fn in_words(explanation: &Explanation, version: &str, until: Option<UnixSeconds>) -> String {
    let mut text = String::new();
    let mut say = |about: &str, mark: &str, lines: &[String]| {
        for (at, line) in lines.iter().enumerate() {
            let (about, mark) = if at == 0 { (about, mark) } else { ("", "") };
            let line = format!("{about:<11} {mark:<3} {}", plain(line));
            text.push_str(line.trim_end());
            text.push('\n');
        }
    };
    if let Some(until) = until {
        say("token", "yes", &[format!("it is accepted, until {until} (seconds since 1970)")]);
    }
    for step in &explanation.steps {
        let mark = step.holds.map_or("", |holds| if holds { "yes" } else { "no" });
        say(step.about, mark, &step.lines);
    }
    say("policy", "", &[format!("version {version}")]);
    let decision = match explanation.reason {
        None => "allowed".to_owned(),
        Some(reason) => format!("denied ({reason})"),
    };
    say("decision", "", &[decision]);
    text
}

fn in_json(explanation: &Explanation, version: &str, until: Option<UnixSeconds>) -> String {
    let steps = explanation
        .steps
        .iter()
        .map(|step| json!({ "about": step.about, "holds": step.holds, "says": step.lines }));
    let told = json!({
        "decision": if explanation.reason.is_none() { "allowed" } else { "denied" },
        "reason": explanation.reason,
        "observed": explanation.observed,
        "policy_version": version,
        "token_until": until,
        "steps": steps.collect::<Vec<_>>(),
    });
    pretty(&told)
}

fn arguments(text: &str) -> Result<Object, Failure> {
    let text = text_of(text, "--args")?;
    match Json::parse(text.trim().as_bytes(), MAX_DEPTH) {
        Ok(Json::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(Failure::usage("--args: arguments are a JSON object: '{\"order_id\": \"o1\"}'")),
        Err(fault) => Err(Failure::usage(format!("--args: it is not JSON: {fault}"))),
    }
}
