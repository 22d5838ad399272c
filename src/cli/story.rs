//! `oncegate story KEY`: one key's life, as a timeline.
//!
//! Promises: how it stands, and what to do, comes first; then every attempt, oldest first, with who, what and what came of
//! it. A key that nobody used is answered with those that look like it, and with how else to search; the exit code is 1
//! then.

mod alike;

use clap::{ArgGroup, Args};

use self::alike::alike;
use super::failure::Failure;
use super::open::Opened;
use super::page::{Ink, Page};
use super::{claims, rows, screen};
use crate::config::ConfigFlags;
use crate::domain::audit::Decision;
use crate::domain::json::Json;
use crate::domain::ledger::Status;
use crate::store::ListedClaim;
use crate::story::words::{about, short, time};
use crate::story::{Moment, Of, Story, stories};

/// How long arguments and summaries may be on the timeline, in characters; `--json` has them whole.
const LONGEST: usize = 600;

/// Tells one key's life: who sent what when, what was answered, what ran, and how it stands now.
///
/// Exit codes: 0, there is a story; 1, nobody used this key.
#[derive(Args)]
#[command(group(ArgGroup::new("named").required(true).args(["positional", "key"])))]
pub(super) struct Tell {
    /// The idempotency key
    #[arg(value_name = "KEY")]
    positional: Option<String>,
    /// The same, also where it begins with a dash
    #[arg(long, allow_hyphen_values = true)]
    key: Option<String>,
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<String>,
    /// Only this operation's
    #[arg(long)]
    tool: Option<String>,
    /// One JSON object for each story, with every column
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Tell {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let opened = Opened::new(&self.config).await?;
        let of = Of {
            tenant: self.tenant,
            service: opened.service.clone(),
            tool: self.tool,
            key: self.positional.or(self.key).unwrap_or_default(),
        };
        let stories = stories(&*opened.store, &of).await?;
        if stories.is_empty() {
            return Err(nobody(&opened, &of).await?);
        }
        let policies = opened.policies();
        let mut text = String::new();
        for (at, story) in stories.iter().enumerate() {
            let policy = policies.of(&story.id.service);
            let operation = policy.and_then(|policy| policy.of_name(&story.id.tool)).map(AsRef::as_ref);
            if self.json {
                let told = json(story, &story.stands(operation)).to_string();
                text.extend([screen::plain_json(&told).as_str(), "\n"]);
                continue;
            }
            let mut page = Page::for_output();
            if at > 0 {
                page.gap();
            }
            head(&mut page, story, &story.stands(operation));
            if let Some(claim) = &story.claim {
                let found = ListedClaim { id: story.id.clone(), claim: claim.clone() };
                let named = claims::name(&opened, &story.id).await?;
                claims::put_advice(&mut page, &found, &named, story.now, operation);
            }
            timeline(&mut page, story);
            text.push_str(&page.into_text());
        }
        Ok(screen::show(&text)?)
    }
}

/// What it is about, and how it stands.
fn head(page: &mut Page, story: &Story, stands: &str) {
    let id = &story.id;
    let tool = if id.tool.is_empty() { "(no operation)" } else { &id.tool };
    let about = format!("{tool}, key {}, tenant {}, service {}", id.key, id.tenant, id.service);
    page.put(Ink::Strong, 0, &about);
    let is_lost = story.claim.as_ref().is_some_and(|claim| claim.status == Status::Unknown);
    page.put(if is_lost { Ink::Alarm } else { Ink::Usual }, 0, stands);
    if let Some(key) = story.forwarded_key() {
        page.put(Ink::Faint, 0, &format!("The app heard the key {key}."));
    }
}

fn timeline(page: &mut Page, story: &Story) {
    let mut sent_before = None;
    let mut at_before = None;
    for (number, moment) in story.moments.iter().enumerate() {
        page.gap();
        let (at, facts) = (moment.row.at, &moment.row.event.facts);
        let later = at_before.map(|before| format!(", {} later", about_or_ms(at.since(before))));
        let head = format!("{}  {} ago{}", time(at), about(story.now.since(at)), later.unwrap_or_default());
        page.put(Ink::Strong, 0, &head);
        page.put(Ink::Usual, 2, &moment.who());
        match &facts.args {
            Some(_) if number > 0 && facts.args == sent_before => page.put(Ink::Usual, 2, "sent the same"),
            Some(args) => page.put(Ink::Usual, 2, &format!("sent {}", short(args, LONGEST))),
            None => {}
        }
        page.put(ink(moment), 2, &moment.sentence);
        if let Some(summary) = &moment.row.event.result_summary {
            page.put(Ink::Usual, 2, &format!("result {}", short(summary, LONGEST)));
        }
        page.put(Ink::Faint, 2, &small_print(moment));
        (sent_before, at_before) = (facts.args.clone().or(sent_before), Some(at));
        if story.left_out_after == Some(number + 1) {
            page.gap();
            let more = "… Moments are left out here, since there are so many: oncegate audit --key KEY --limit 100000 lists them.";
            page.put(Ink::Held, 0, more);
        }
    }
}

fn ink(moment: &Moment) -> Ink {
    let event = &moment.row.event;
    match (event.decision, event.reason.as_deref()) {
        (_, Some("abandoned" | "outcome_unknown" | "internal_error" | "no_gateway")) => Ink::Alarm,
        (Decision::Allowed | Decision::Replayed, _) => Ink::Good,
        (Decision::Denied, _) => Ink::Held,
    }
}

/// What one looks up: the row's words, and its ids.
fn small_print(moment: &Moment) -> String {
    let (event, facts) = (&moment.row.event, &moment.row.event.facts);
    let mut text = event.decision.as_str().to_owned();
    let attempt = facts.attempt_id.map(|id| id.to_string());
    let id = event.id.to_string();
    for (name, part) in [
        (" ", event.reason.as_deref()),
        (", executed ", Some(event.executed.as_str())),
        (", attempt ", attempt.as_deref()),
        (", trace ", facts.trace_id.as_deref()),
        (", policy ", facts.policy_version.as_deref()),
        (", row ", Some(id.as_str())),
    ] {
        if let Some(part) = part {
            text.extend([name, part]);
        }
    }
    text
}

fn about_or_ms(time: std::time::Duration) -> String {
    if time.as_secs() > 0 { about(time) } else { format!("{} ms", time.as_millis()) }
}

/// The story for a program.
fn json(story: &Story, stands: &str) -> Json {
    let id = &story.id;
    let claim = story
        .claim
        .as_ref()
        .map(|claim| rows::claim(&ListedClaim { id: id.clone(), claim: claim.clone() }, true));
    let moments = story.moments.iter().map(|moment| {
        let mut row = rows::event(&moment.row);
        if let Some(members) = row.as_object_mut() {
            members.insert("sentence", moment.sentence.as_str());
        }
        row
    });
    let left_out = story.left_out_after.and_then(|after| u64::try_from(after).ok());
    Json::object([
        ("tenant_id", Json::from(id.tenant.as_str())),
        ("service", id.service.as_str().into()),
        ("tool", id.tool.as_str().into()),
        ("idempotency_key", id.key.as_str().into()),
        ("stands", stands.into()),
        ("claim", claim.unwrap_or(Json::Null)),
        ("moments", Json::Array(moments.collect())),
        ("left_out_after", left_out.into()),
    ])
}

/// What to say of a key that nobody used.
async fn nobody(opened: &Opened, of: &Of) -> Result<Failure, Failure> {
    let mut told = format!("nobody used the key {}", of.key);
    for (name, value) in [("tenant", &of.tenant), ("service", &of.service), ("tool", &of.tool)] {
        if let Some(value) = value {
            told.extend([", ", name, " ", value]);
        }
    }
    let alike = alike(&*opened.store, of).await?;
    if !alike.is_empty() {
        told.push_str("\nkeys like it, the newest first:");
        told.extend(alike.iter().map(|key| format!("\n  {key}")));
    }
    told.push_str(
        "\noncegate audit --arg NAME=VALUE finds calls by what they sent (an order's number), --trace by the trace, \
         --user and --since by who and when",
    );
    Ok(Failure::failed(told))
}
