//! Rows of the table that only whoever runs a job is told: about what it reported.
//!
//! Promises: a worker hears whether to report again, and whether to go on.

use std::time::Duration;

use super::row::{Retry, Row, Shape};
use crate::domain::audit::Executed;

pub(super) fn lease_lost() -> Row {
    of(
        "lease_lost",
        40_906,
        Retry::No,
        "The job's lease has lapsed, or its time is over, and others may have heard that its outcome is unknown. Begin \
         nothing more; report all the same what came of it.",
    )
}

pub(super) fn attempt_over() -> Row {
    of(
        "attempt_over",
        40_907,
        Retry::No,
        "The job is not this attempt's (any more): it was settled otherwise, resolved or taken over, or never claimed so. \
         Begin nothing more. A report of its end was written down, and changed nothing.",
    )
}

pub(super) fn report_not_stored() -> Row {
    let text = "The report could not be stored. Send it again in a moment, with the same attempt_id.";
    of("store_unavailable", 50_303, Retry::SameKey, text).after(Duration::from_secs(2))
}

/// What a worker is told of what may have run.
fn of(word: &'static str, code: i64, retry: Retry, text: &str) -> Row {
    Row::new(word, word, Shape::Told { code }, (Executed::Maybe, retry), text.to_owned())
}
