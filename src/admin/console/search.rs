//! The audit, searched: who asked for what, the newest first, page by page.
//!
//! Promises: one box finds a row by any part of what it says, and by an argument's name and value; whatever was looked for
//! stands in the page's URL, so that it can be passed on; a search ends within its time, and says over which time it
//! looked.
//!
//! Absent on purpose: a count of everything that fits. It would cost a look at every row.

use maud::{Markup, html};
use uuid::Uuid;

use super::overview::{missing, search_box};
use super::words::{self, Outcome};
use super::{Asked, PATIENCE};
use crate::domain::audit::Decision;
use crate::domain::time::Timestamp;
use crate::domain::units::parse_duration;
use crate::store::{AuditFilter, Cursor, RecordedEvent, StoreError};

/// Rows to a page.
const ROWS: u32 = 50;

/// How far back is looked where nobody says.
const USUAL: &str = "7d";

/// How far back may be looked by a choice: in a link, and for a person.
const SINCE: [(&str, &str); 5] = [
    ("1h", "the last hour"),
    ("24h", "the last 24 hours"),
    (USUAL, "the last 7 days"),
    ("30d", "the last 30 days"),
    ("all", "all that is kept"),
];

/// The fields of the form that stand for themselves: their names, and their labels.
const FIELDS: [(&str, &str); 7] = [
    ("tenant", "Tenant"),
    ("user", "User"),
    ("session", "Session"),
    ("tool", "Operation"),
    ("key", "Key"),
    ("reason", "Reason"),
    ("arg", "Argument, as name=value"),
];

/// Every name that this page's URL may have, but for the page's own.
const NAMES: [&str; 12] =
    ["q", "tenant", "user", "session", "tool", "key", "reason", "arg", "decision", "since", "from", "to"];

/// What is looked for.
pub(super) struct Search<'a> {
    asked: &'a Asked,
    since: &'static str,
}

impl<'a> Search<'a> {
    /// What the page was asked with.
    pub(super) fn of(asked: &'a Asked) -> Self {
        let chosen = SINCE.iter().find(|(word, _)| asked.text("since") == Some(word));
        let bounded = asked.text("from").is_some() || asked.text("to").is_some();
        let since = chosen.map_or(if bounded { "all" } else { USUAL }, |(word, _)| word);
        Self { asked, since }
    }

    /// The rows that are asked for, and one more.
    pub(super) fn filter(&self, service: &str) -> AuditFilter {
        let text = |name: &str| self.asked.text(name).map(|text| text.trim().to_owned());
        let mut filter = AuditFilter {
            service: Some(service.to_owned()),
            tenant: text("tenant"),
            tool: text("tool"),
            key: text("key"),
            user: text("user"),
            session: text("session"),
            reason: text("reason"),
            decision: self.asked.text("decision").and_then(Decision::from_word),
            args: text("arg").as_deref().and_then(pair).into_iter().collect(),
            since: parse_duration(self.since).ok(),
            from: self.asked.text("from").and_then(point),
            to: self.asked.text("to").and_then(point),
            before: self.asked.text("before").and_then(place),
            within: Some(PATIENCE),
            limit: ROWS + 1,
            ..AuditFilter::default()
        };
        read_box(self.asked.text("q").unwrap_or_default(), &mut filter);
        filter
    }

    /// The page.
    pub(super) fn body(
        &self,
        found: &Result<Vec<RecordedEvent>, StoreError>,
        now: Option<Timestamp>,
    ) -> Markup {
        html! {
            h1 { "Search" }
            (self.form())
            section aria-label="Rows" {
                @match (found, now) {
                    (Ok(found), Some(now)) => { (self.rows(found, now)) }
                    (Ok(_), None) => { p class="warn" { "The store did not say what time it is. Load the page again." } }
                    (Err(fault), _) => { (missing(fault)) p { "A narrower search is answered sooner: a tenant, or a shorter time." } }
                }
            }
        }
    }

    fn form(&self) -> Markup {
        let value = |name: &str| self.asked.text(name).unwrap_or_default();
        let precise = FIELDS.iter().any(|(name, _)| !value(name).is_empty())
            || ["decision", "from", "to"].iter().any(|name| !value(name).is_empty());
        search_box(
            value("q"),
            &html! {
                details open[precise] {
                    summary { "More precisely" }
                    div class="fields" {
                        @for (name, label) in FIELDS {
                            div {
                                label for=(name) { (label) }
                                input id=(name) name=(name) value=(value(name)) autocomplete="off" spellcheck="false" autocapitalize="off";
                            }
                        }
                        div {
                            label for="decision" { "Decision" }
                            select id="decision" name="decision" {
                                option value="" { "any" }
                                @for decision in Decision::ALL.map(Decision::as_str) {
                                    option value=(decision) selected[value("decision") == decision] { (decision) }
                                }
                            }
                        }
                        div {
                            label for="since" { "Over" }
                            select id="since" name="since" {
                                @for (word, name) in SINCE { option value=(word) selected[self.since == word] { (name) } }
                            }
                        }
                        @for (name, label) in [("from", "From (UTC)"), ("to", "Before (UTC)")] {
                            div {
                                label for=(name) { (label) }
                                input id=(name) name=(name) type="datetime-local" value=(value(name));
                            }
                        }
                    }
                    button { "Search" }
                }
            },
        )
    }

    fn rows(&self, found: &[RecordedEvent], now: Timestamp) -> Markup {
        let most = usize::try_from(ROWS).unwrap_or(usize::MAX);
        // They come oldest first; the one too many is the oldest.
        let shown: Vec<_> = found.iter().rev().take(most).collect();
        let over = SINCE.iter().find(|(word, _)| *word == self.since).map_or("", |(_, name)| name);
        html! {
            @if shown.is_empty() { (self.nothing(over)) } @else {
                p class="faint" { "The newest first, over " (over) "." }
                (table(&shown, now))
            }
            @if found.len() > shown.len() && let Some(last) = shown.last() {
                p class="pages" { a href=(self.link(&[("before", &text_of(last.cursor()))])) rel="next" { "Older rows" } }
            }
        }
    }

    fn nothing(&self, over: &str) -> Markup {
        html! {
            div class="empty" {
                p { strong { "No row fits." } " Looked at " (over) "." }
                ul {
                    @if self.since != "all" { li { a href=(self.link(&[("since", "all")])) { "Look at all that is kept" } } }
                    li { "A part is enough: " code { "9f2" } " finds " code { "ord_9f2" } ". Capital letters count." }
                    li { "Arguments are found as they were stored: what the policy masks is not there." }
                    li { "Who was refused before a token said who it was has no row, only a line in the log." }
                }
            }
        }
    }

    /// This search, with something else.
    fn link(&self, changes: &[(&str, &str)]) -> String {
        let kept = NAMES.iter().filter(|name| changes.iter().all(|(changed, _)| changed != *name));
        let kept = kept.filter_map(|name| Some((*name, self.asked.text(name)?)));
        words::link("/console/search", kept.chain(changes.iter().copied()))
    }
}

/// Rows of the audit, as a table, and as cards where there is no room for one.
pub(super) fn table(rows: &[&RecordedEvent], now: Timestamp) -> Markup {
    let heads = ["Time (UTC)", "Outcome", "Operation", "Who", "Key", "Reason", "Arguments"];
    html! {
        table class="rows" role="table" {
            thead role="rowgroup" { tr role="row" { @for head in heads { th scope="col" role="columnheader" { (head) } } } }
            tbody role="rowgroup" { @for row in rows { (line(row, now)) } }
        }
    }
}

fn line(row: &RecordedEvent, now: Timestamp) -> Markup {
    let (event, facts) = (&row.event, &row.event.facts);
    let key = facts.idempotency_key.as_deref();
    html! {
        tr role="row" {
            td role="cell" class="first" { a href=(row_link(row)) { (words::time(row.at, now)) } }
            td role="cell" { (Outcome::of_row(event).mark()) }
            td role="cell" data-name="Operation" { (words::operation(&facts.service, &facts.tool)) }
            td role="cell" data-name="Who" { (words::listed(&facts.user_id)) " " span class="faint" { "of " (words::listed(&facts.tenant_id)) } }
            td role="cell" data-name="Key" class="mono" { @if let Some(key) = key { a href=(story_of(row)) { (words::listed(key)) } } }
            td role="cell" data-name="Reason" { @if let Some(reason) = event.reason.as_deref() { (words::listed(reason)) } }
            td role="cell" data-name="Arguments" class="mono" { @if let Some(args) = facts.args.as_deref() { (words::listed(args)) } }
        }
    }
}

/// Where a row is shown whole.
pub(super) fn row_link(row: &RecordedEvent) -> String {
    words::link(&format!("/console/rows/{}", row.event.id), [("tenant", row.event.facts.tenant_id.as_str())])
}

/// Where its key's story is told.
pub(super) fn story_of(row: &RecordedEvent) -> String {
    let facts = &row.event.facts;
    let key = facts.idempotency_key.as_deref().unwrap_or_default();
    words::link(
        "/console/story",
        [("key", key), ("tenant", &facts.tenant_id), ("service", &facts.service), ("tool", &facts.tool)],
    )
}

/// What stands in the box: names with their values, and a text.
fn read_box(text: &str, filter: &mut AuditFilter) {
    let mut plain = Vec::new();
    for word in text.split_whitespace() {
        let Some((name, value)) = pair(word) else {
            plain.push(word);
            continue;
        };
        match name.as_str() {
            "tenant" => filter.tenant = Some(value),
            "tool" => filter.tool = Some(value),
            "key" => filter.key = Some(value),
            "user" => filter.user = Some(value),
            "session" => filter.session = Some(value),
            "reason" => filter.reason = Some(value),
            "decision" if Decision::from_word(&value).is_some() => {
                filter.decision = Decision::from_word(&value);
            }
            _ => filter.args.push((name, value)),
        }
    }
    if !plain.is_empty() {
        filter.text = Some(plain.join(" "));
    }
}

fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    (!name.trim().is_empty()).then(|| (name.trim().to_owned(), value.trim().to_owned()))
}

/// A time as the form has it: `2026-12-01T03:20`.
fn point(text: &str) -> Option<Timestamp> {
    let at: jiff::civil::DateTime = text.parse().ok()?;
    let at = jiff::tz::TimeZone::UTC.to_timestamp(at).ok()?;
    Some(Timestamp::from_micros(at.as_microsecond()))
}

fn text_of(place: Cursor) -> String {
    format!("{}.{}", place.at.as_micros(), place.id)
}

fn place(text: &str) -> Option<Cursor> {
    let (at, id) = text.split_once('.')?;
    Some(Cursor { at: Timestamp::from_micros(at.parse().ok()?), id: id.parse::<Uuid>().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(query: &str) -> AuditFilter {
        Search::of(&Asked::of(query.as_bytes())).filter("billing")
    }

    #[test]
    fn the_box_takes_a_text_and_names_with_their_values() {
        let told = filter("q=ord_9f2");
        assert_eq!((told.text.as_deref(), told.args.len()), (Some("ord_9f2"), 0));
        let told = filter("q=+order_id%3Dord_9f2+user%3Dalice+decision%3Ddenied++two+words");
        assert_eq!(told.args, [("order_id".to_owned(), "ord_9f2".to_owned())]);
        assert_eq!((told.user.as_deref(), told.decision), (Some("alice"), Some(Decision::Denied)));
        assert_eq!(told.text.as_deref(), Some("two words"));
        assert_eq!(filter("q=decision%3Dmaybe").args.len(), 1, "no decision: an argument");
        assert!(filter("q=%3D").text.is_some());
    }

    #[test]
    fn a_search_is_bounded_by_seven_days_or_by_what_is_chosen() {
        let days = |query: &str| filter(query).since.map(|since| since.as_secs() / 86_400);
        assert_eq!((days(""), days("since=30d"), days("since=all")), (Some(7), Some(30), None));
        let told = filter("from=2026-12-01T03:20&to=2026-12-01T03:40:00");
        assert_eq!(told.from.map(Timestamp::as_micros), Some(1_796_095_200_000_000));
        assert_eq!((told.to.map(Timestamp::as_micros), told.since), (Some(1_796_096_400_000_000), None));
        assert!(filter("from=yesterday").from.is_none());
    }

    #[test]
    fn a_page_goes_on_where_the_one_before_ended() {
        let place = Cursor { at: Timestamp::from_micros(5), id: Uuid::from_u128(7) };
        assert_eq!(filter(&format!("before={}", text_of(place))).before, Some(place));
        let asked = Asked::of(b"q=a+b&since=all&before=1.2&junk=x");
        let next = Search::of(&asked).link(&[("before", "9.9")]);
        assert_eq!(next, "/console/search?q=a+b&since=all&before=9.9");
    }
}
