//! One row of the audit, with all its columns.
//!
//! Promises: every column by its name in the table, whole; what is empty is said to be. From here lead the ways to what
//! belongs to it: its key's story, its trace, its session.

use maud::{Markup, html};

use super::search::story_of;
use super::words::{self, Outcome};
use crate::domain::json::{Json, MAX_DEPTH};
use crate::domain::time::Timestamp;
use crate::store::RecordedEvent;

/// The page's body.
pub(super) fn body(row: &RecordedEvent, now: Timestamp) -> Markup {
    let (event, facts) = (&row.event, &row.event.facts);
    let search = |name: &str, value: &Option<String>| {
        value.as_deref().map(|value| words::link("/console/search", [(name, value), ("since", "all")]))
    };
    html! {
        h1 { (words::operation(&facts.service, &facts.tool)) " " (Outcome::of_row(event).mark()) }
        p { (words::value(&facts.user_id)) " of " (words::value(&facts.tenant_id)) ", " (words::time(row.at, now)) }
        @if facts.idempotency_key.is_some() {
            p { a href=(story_of(row)) { "The story of its key" } }
        }
        dl class="sheet" {
            (text("id", Some(&event.id.to_string())))
            (text("at", Some(&crate::story::words::time(row.at))))
            (text("tenant_id", Some(&facts.tenant_id)))
            (text("service", Some(&facts.service)))
            (text("user_id", Some(&facts.user_id)))
            (linked("session_id", facts.session_id.as_deref(), search("session", &facts.session_id)))
            (text("tool", Some(&facts.tool)))
            (text("decision", Some(event.decision.as_str())))
            (linked("reason", event.reason.as_deref(), search("reason", &event.reason)))
            (text("executed", Some(event.executed.as_str())))
            (text("args_hash", facts.args_hash.as_deref()))
            (json("args", facts.args.as_deref()))
            (json("result_summary", event.result_summary.as_deref()))
            (text("idempotency_key", facts.idempotency_key.as_deref()))
            (text("duration_ms", event.duration_ms.map(|ms| ms.to_string()).as_deref()))
            (text("attempt_id", facts.attempt_id.map(|id| id.to_string()).as_deref()))
            (text("upstream_status", event.upstream_status.map(|status| status.to_string()).as_deref()))
            (text("policy_version", facts.policy_version.as_deref()))
            (linked("trace_id", facts.trace_id.as_deref(), search("q", &facts.trace_id)))
            (text("protocol", facts.protocol.as_deref()))
            (text("client", facts.client.as_deref()))
        }
    }
}

fn column(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn text(name: &str, value: Option<&str>) -> Markup {
    linked(name, value, None)
}

fn linked(name: &str, value: Option<&str>, to: Option<String>) -> Markup {
    let value = value.filter(|value| !value.is_empty());
    column(
        name,
        &html! {
            @match (value, to) {
                (None, _) => span class="faint" { "empty" },
                (Some(value), None) => (words::value(value)),
                (Some(value), Some(to)) => a href=(to) { (words::value(value)) },
            }
        },
    )
}

/// JSON with a line for each member; what is none after all, as the text that it is.
fn json(name: &str, value: Option<&str>) -> Markup {
    let Some(value) = value else { return text(name, None) };
    let read = Json::parse(value.as_bytes(), MAX_DEPTH);
    let shown = read.map_or_else(|_| words::plain(value), |json| spread(&json, 0));
    column(name, &html! { pre tabindex="0" { code { bdi { (shown) } } } })
}

fn spread(json: &Json, depth: usize) -> String {
    let inner = "  ".repeat(depth + 1);
    let close = "  ".repeat(depth);
    let plain = |json: &Json| words::plain(&json.to_string());
    match json {
        Json::Object(object) if object.iter().next().is_some() => {
            let members = object.iter().map(|(name, value)| {
                format!("{inner}{}: {}", plain(&Json::from(name)), spread(value, depth + 1))
            });
            format!("{{\n{}\n{close}}}", members.collect::<Vec<_>>().join(",\n"))
        }
        Json::Array(elements) if !elements.is_empty() => {
            let elements = elements.iter().map(|value| format!("{inner}{}", spread(value, depth + 1)));
            format!("[\n{}\n{close}]", elements.collect::<Vec<_>>().join(",\n"))
        }
        Json::Object(_) | Json::Array(_) | Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            plain(json)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_spread_and_cannot_hide_anything() {
        let json = Json::parse(br#"{"a":[1,{"b":"\u202ex"}],"c":{},"d":[]}"#, MAX_DEPTH).expect("JSON");
        let told = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"\\u{202e}x\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(spread(&json, 0), told);
    }
}
