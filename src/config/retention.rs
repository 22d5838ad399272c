//! How long is kept what a gate wrote, and at what pace the rest goes.
//!
//! Promises: a slip of the pen deletes nothing: no period shorter than a week is taken for the audit's.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::checks::Checks;
use super::layers::Layers;
use super::raw::{RawAudit, RawRetention};
use crate::domain::mistake::Mistakes;
use crate::domain::units::{duration_text, parse_duration};

const DAY: Duration = Duration::from_hours(24);
/// A year, which some rules ask for, and a month to notice that it is over.
const KEEP: Duration = Duration::from_hours(24 * 400);
const KEEPS: RangeInclusive<Duration> = Duration::from_hours(24 * 7)..=Duration::from_hours(24 * 36_500);
const EVERY: Duration = Duration::from_mins(1);
const PACES: RangeInclusive<Duration> = Duration::from_secs(1)..=DAY;

/// The word for a period that does not end.
const FOREVER: &str = "forever";

/// How long is kept what a gate wrote, and at what pace the rest goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionConfig {
    /// How long audit rows are kept; none: for ever.
    pub audit: Option<Duration>,
    /// How often the leader among the gates looks for what may go.
    pub every: Duration,
    /// How many rows go in one transaction.
    pub batch: u32,
}

impl Layers {
    /// What a command needs that deletes what has become too old.
    pub fn retention(&self) -> Result<RetentionConfig, Mistakes> {
        self.checked(|checks, raw| checks.retention(&raw.audit, &raw.retention))
    }
}

impl Checks<'_> {
    pub(super) fn retention(&mut self, audit: &RawAudit, pace: &RawRetention) -> Option<RetentionConfig> {
        let audit = audit.keep.as_ref().map_or(Ok(Some(KEEP)), |value| {
            let told = period(value.get_ref());
            told.map_err(|fault| self.at_with(value, format!("audit.keep: {fault}"), HELP))
        });
        let every = self.span("retention.every", pace.every.as_ref(), EVERY, &PACES);
        let batch = self.number("retention.batch", pace.batch.as_ref(), 500, 10_000);
        Some(RetentionConfig { audit: audit.ok()?, every: every?, batch: u32::try_from(batch?).ok()? })
    }
}

const HELP: &str = "write it like \"400d\"; \"forever\" keeps all";

/// A period for which audit rows are kept; none: for ever.
pub fn period(text: &str) -> Result<Option<Duration>, String> {
    if text == FOREVER {
        return Ok(None);
    }
    let found = parse_duration(text).map_err(|fault| fault.to_string())?;
    if KEEPS.contains(&found) {
        return Ok(Some(found));
    }
    let (least, most) = (duration_text(*KEEPS.start()), duration_text(*KEEPS.end()));
    Err(format!("\"{text}\" makes no sense for an audit; it may be {least} to {most}, or {FOREVER}"))
}

/// Such a period, as it is written.
pub fn period_text(period: Option<Duration>) -> String {
    period.map_or_else(|| FOREVER.to_owned(), duration_text)
}
