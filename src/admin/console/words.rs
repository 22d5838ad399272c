//! Values, times and links as a page shows them.
//!
//! Promises: what strangers sent is text, whatever stands in it: no markup, no character that turns the direction of
//! writing for what is around it, none that cannot be seen. A link holds any value whole.

use std::time::Duration;

use form_urlencoded::Serializer;
use maud::{Markup, html};

use crate::domain::audit::{AuditEvent, Decision, Executed};
pub(super) use crate::domain::shown::plain;
use crate::domain::time::Timestamp;
pub(super) use crate::story::words::about;
use crate::story::words::short;

/// How many characters of a value a list shows.
const LISTED: usize = 80;

/// What came of a call, as it is counted and coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It may have run: nobody knows.
    Unknown,
    /// It was let go.
    Allowed,
    /// The first answer was given again.
    Replayed,
    /// It was refused.
    Denied,
}

impl Outcome {
    /// In the order in which they stand, from the ground up.
    pub(super) const ALL: [Self; 4] = [Self::Unknown, Self::Allowed, Self::Replayed, Self::Denied];

    /// What a row is counted as.
    pub(super) fn of(decision: Decision, is_unclear: bool) -> Self {
        match (decision, is_unclear) {
            (Decision::Allowed, true) => Self::Unknown,
            (Decision::Allowed, false) => Self::Allowed,
            (Decision::Replayed, _) => Self::Replayed,
            (Decision::Denied, _) => Self::Denied,
        }
    }

    /// The same of a whole row.
    pub(super) fn of_row(event: &AuditEvent) -> Self {
        let waits = event.reason.as_deref() == Some("input_required");
        Self::of(event.decision, event.executed == Executed::Maybe && !waits)
    }

    /// For a person.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "outcome unknown",
            Self::Allowed => "allowed",
            Self::Replayed => "replayed",
            Self::Denied => "denied",
        }
    }

    /// For the style.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Allowed => "allowed",
            Self::Replayed => "replayed",
            Self::Denied => "denied",
        }
    }

    /// Beside the name, for whoever does not see colours.
    const fn sign(self) -> &'static str {
        match self {
            Self::Unknown => "?",
            Self::Allowed => "✓",
            Self::Replayed => "↻",
            Self::Denied => "✕",
        }
    }

    /// A mark with all three.
    pub(super) fn mark(self) -> Markup {
        html! { span class={ "mark " (self.class()) } { span aria-hidden="true" { (self.sign()) } " " (self.name()) } }
    }
}

/// A value, whole.
pub(super) fn value(text: &str) -> Markup {
    html! { bdi { (plain(text)) } }
}

/// A value in a list: cut where it is long.
pub(super) fn listed(text: &str) -> Markup {
    let text = plain(text);
    let short = short(&text, LISTED);
    html! { bdi title=[(short != text).then_some(&text)] { (short) } }
}

/// An operation, with the listener that it belongs to.
pub(super) fn operation(service: &str, tool: &str) -> Markup {
    html! {
        @if tool.is_empty() { span class="faint" { "no operation" } } @else { (listed(tool)) }
        @if let Some((_, listener)) = service.split_once(':') { " " span class="faint" { "at " (listed(listener)) } }
    }
}

/// A point in time: how long ago, and when.
pub(super) fn time(at: Timestamp, now: Timestamp) -> Markup {
    html! {
        time class="when" datetime=(machine(at)) {
            span class="at" { (clock(at)) } " " span class="ago" { (ago(at, now)) }
        }
    }
}

/// How far away it is.
fn ago(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        return format!("in {}", about(at.since(now)));
    }
    match now.since(at) {
        moment if moment < Duration::from_secs(1) => "now".to_owned(),
        passed => format!("{} ago", about(passed)),
    }
}

/// `2026-12-01 03:12:44`.
pub(super) fn clock(at: Timestamp) -> String {
    stamp(at, "%Y-%m-%d %H:%M:%S")
}

/// `03:12`, or with the day where a time alone could be another day's.
pub(super) fn short_clock(at: Timestamp, with_day: bool) -> String {
    stamp(at, if with_day { "%b %-d, %H:%M" } else { "%H:%M" })
}

/// As the fields of a form have it: to the minute.
pub(super) fn minute(at: Timestamp) -> String {
    stamp(at, "%Y-%m-%dT%H:%M")
}

fn machine(at: Timestamp) -> String {
    stamp(at, "%Y-%m-%dT%H:%M:%S%.6fZ")
}

fn stamp(at: Timestamp, form: &str) -> String {
    let at = jiff::Timestamp::from_microsecond(at.as_micros());
    at.map_or_else(|_| "?".to_owned(), |at| at.strftime(form).to_string())
}

/// A number with thin gaps between its thousands.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let gap = |place: usize| place > 0 && (digits.len() - place).is_multiple_of(3);
    digits.chars().enumerate().fold(String::new(), |mut text, (place, digit)| {
        if gap(place) {
            text.push('\u{202f}');
        }
        text.push(digit);
        text
    })
}

/// A path with these pairs behind it; those that are empty are left out.
pub(super) fn link<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_sent_is_text_and_cannot_turn_what_is_around_it() {
        let shown = value("<script>alert('x')</script>\u{202e}\u{0}\"&").into_string();
        assert_eq!(shown, "<bdi>&lt;script&gt;alert('x')&lt;/script&gt;\\u{202e}\\u{0}&quot;&amp;</bdi>");
        let long = listed(&"\"><b>".repeat(200)).into_string();
        assert!(!long.contains("<b>") && long.ends_with("…</bdi>"), "{long}");
    }

    #[test]
    fn a_link_holds_any_value_and_leaves_out_what_is_empty() {
        assert_eq!(link("/x", [("a", ""), ("b", "c d&e=<\"\u{202e}")]), "/x?b=c+d%26e%3D%3C%22%E2%80%AE");
        assert_eq!(link("/x", [("a", "")]), "/x");
    }

    #[test]
    fn times_and_numbers_are_as_a_person_reads_them() {
        let at = Timestamp::from_micros(1_796_094_764_500_000);
        assert_eq!(clock(at), "2026-12-01 03:12:44");
        assert_eq!(ago(at, at.plus(Duration::from_secs(61))), "1m1s ago");
        assert_eq!(ago(at.plus(Duration::from_secs(5)), at), "in 5s");
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(number(999), "999");
    }
}
