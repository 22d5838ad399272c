//! Calls by what came of them, over time: a plot, its legend, and the same numbers as a table.
//!
//! Promises: pure; every piece of the range has its place, whether or not anything was counted in it; a kind that was
//! counted at all can be seen, and unknown outcomes stand on the ground, striped, where nothing hides them. What the plot
//! shows, the table says.
//!
//! Absent on purpose: scales per kind, and lines between numbers that nobody counted.

use std::time::Duration;

use maud::{Markup, html};

use super::words::{self, Outcome, number};
use crate::domain::time::Timestamp;
use crate::store::Counted;

/// How high a kind that was counted stands at least, of a hundred.
const LEAST: f64 = 1.5;

/// The same for unknown outcomes: one among thousands must be seen.
const LEAST_UNKNOWN: f64 = 6.0;

/// How wide a piece is, in the plot's own units.
const WIDE: usize = 10;

/// What is looked back over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// In minutes.
    Hour,
    /// In pieces of twenty minutes.
    Day,
    /// In pieces of two hours.
    Week,
}

impl Range {
    /// Each, as a link offers it.
    pub(super) const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// Its name in a link.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
        }
    }

    /// The range of this name; a day otherwise.
    pub(super) fn from_word(word: Option<&str>) -> Self {
        Self::ALL.into_iter().find(|range| Some(range.as_str()) == word).unwrap_or(Self::Day)
    }

    /// For a person.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hour => "the last hour",
            Self::Day => "the last 24 hours",
            Self::Week => "the last 7 days",
        }
    }

    /// How long a piece is, and how many there are.
    pub(super) const fn pieces(self) -> (Duration, u32) {
        match self {
            Self::Hour => (Duration::from_mins(1), 60),
            Self::Day => (Duration::from_mins(20), 72),
            Self::Week => (Duration::from_hours(2), 84),
        }
    }
}

/// One piece of time, and how many calls of each kind it saw, in the order of [`Outcome::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    from: Timestamp,
    counts: [u64; 4],
}

impl Piece {
    fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Every piece of a range, the oldest first.
pub(super) fn pieces(range: Range, counted: &Counted) -> Vec<Piece> {
    let (step, steps) = range.pieces();
    let micros = i64::try_from(step.as_micros()).unwrap_or(i64::MAX).max(1);
    let last = Timestamp::from_micros(counted.now.as_micros().div_euclid(micros) * micros);
    let mut pieces: Vec<_> =
        (0..steps).rev().map(|back| Piece { from: last.minus(step * back), counts: [0; 4] }).collect();
    for tally in &counted.tallies {
        let kind = Outcome::of(tally.decision, tally.is_unclear);
        let Some(piece) = pieces.iter_mut().find(|piece| piece.from == tally.from) else { continue };
        for (count, _) in piece.counts.iter_mut().zip(Outcome::ALL).filter(|(_, of)| *of == kind) {
            *count += tally.rows;
        }
    }
    pieces
}

/// The whole: the plot, what its colours mean, and the table.
pub(super) fn figure(range: Range, pieces: &[Piece]) -> Markup {
    let (step, _) = range.pieces();
    let top = nice(pieces.iter().map(Piece::sum).max().unwrap_or(0));
    let with_day = range == Range::Week;
    let at = |place: usize| pieces.get(place).map(|piece| words::short_clock(piece.from, with_day));
    html! {
        figure class="plot" {
            div class="canvas" {
                div class="scale" aria-hidden="true" { span { (number(top)) } span { (number(top / 2)) } span { "0" } }
                (bars(range, pieces, top))
            }
            div class="axis" aria-hidden="true" {
                span { (at(0).unwrap_or_default()) } span { (at(pieces.len() / 2).unwrap_or_default()) } span { "now" }
            }
            figcaption {
                ul class="legend" {
                    @for (place, kind) in Outcome::ALL.into_iter().enumerate() {
                        li {
                            span class={ "swatch " (kind.class()) } aria-hidden="true" {}
                            (kind.name()) " " strong { (number(total(pieces, place))) }
                        }
                    }
                }
                p class="faint" { "A bar is " (words::about(step)) "." }
            }
        }
        (table(pieces, step, with_day))
    }
}

fn total(pieces: &[Piece], place: usize) -> u64 {
    pieces.iter().filter_map(|piece| piece.counts.get(place)).sum()
}

/// In words, for whoever does not see it.
fn told(range: Range, pieces: &[Piece]) -> String {
    let sums = Outcome::ALL.into_iter().enumerate();
    let sums: Vec<_> =
        sums.map(|(place, kind)| format!("{} {}", total(pieces, place), kind.name())).collect();
    format!("In {}: {}. The table below has the numbers.", range.name(), sums.join(", "))
}

fn bars(range: Range, pieces: &[Piece], top: u64) -> Markup {
    let width = pieces.len() * WIDE;
    html! {
        svg viewBox={ "0 0 " (width) " 100" } preserveAspectRatio="none" role="img"
            aria-labelledby="plot-name plot-told" focusable="false" {
            title id="plot-name" { "Calls by what came of them, over " (range.name()) }
            desc id="plot-told" { (told(range, pieces)) }
            defs {
                pattern id="stripes" width="4" height="4" patternUnits="userSpaceOnUse" {
                    rect class="unknown" width="4" height="4" {}
                    rect class="gap" width="4" height="1.4" {}
                }
            }
            @for height in [0, 50, 100] {
                line class="rule" x1="0" x2=(width) y1=(height) y2=(height) vector-effect="non-scaling-stroke" {}
            }
            @for (place, piece) in pieces.iter().enumerate() {
                g {
                    title { (tip(piece)) }
                    @for (kind, from, height) in stack(piece, top) {
                        rect class=(kind.class()) x=(place * WIDE + 1) width=(WIDE - 2)
                            y={ (format!("{:.2}", 100.0 - from - height)) } height={ (format!("{height:.2}")) } {}
                    }
                }
            }
        }
    }
}

/// What stands on what in one bar: from where, and how high, of a hundred.
fn stack(piece: &Piece, top: u64) -> Vec<(Outcome, f64, f64)> {
    let mut from = 0.0;
    let kinds = Outcome::ALL.into_iter().zip(piece.counts).filter(|(_, count)| *count > 0);
    let mut parts: Vec<_> = kinds
        .map(|(kind, count)| {
            let least = if kind == Outcome::Unknown { LEAST_UNKNOWN } else { LEAST };
            (kind, (share(count, top) * 100.0).max(least))
        })
        .collect();
    // What was raised to be seen may not push the rest out at the top.
    let sum: f64 = parts.iter().map(|(_, height)| height).sum();
    if sum > 100.0 {
        for (_, height) in &mut parts {
            *height *= 100.0 / sum;
        }
    }
    parts
        .into_iter()
        .map(|(kind, height)| {
            let stands = (kind, from, height);
            from += height;
            stands
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "the height of a bar needs no more than that")]
fn share(count: u64, top: u64) -> f64 {
    count as f64 / top.max(1) as f64
}

fn tip(piece: &Piece) -> String {
    let counts = Outcome::ALL.into_iter().zip(piece.counts).filter(|(_, count)| *count > 0);
    let counts: Vec<_> = counts.map(|(kind, count)| format!("{count} {}", kind.name())).collect();
    let counts = if counts.is_empty() { "no call".to_owned() } else { counts.join(", ") };
    format!("{} UTC: {counts}", words::clock(piece.from))
}

/// The least round number that is no less, and even.
fn nice(most: u64) -> u64 {
    let mut scale: u64 = 1;
    loop {
        for step in [2, 4, 6, 8, 10, 12, 16] {
            if most <= scale.saturating_mul(step) {
                return scale.saturating_mul(step);
            }
        }
        scale = scale.saturating_mul(10);
    }
}

fn table(pieces: &[Piece], step: Duration, with_day: bool) -> Markup {
    let told = || pieces.iter().rev().filter(|piece| piece.sum() > 0);
    html! {
        details class="numbers" {
            summary { "The numbers as a table" }
            @if told().next().is_none() { p { "No call was written down in this time." } } @else {
                div class="scrolls" tabindex="0" role="region" aria-label="Calls by time" {
                    table {
                        thead { tr {
                            th scope="col" { "From (UTC)" }
                            @for kind in Outcome::ALL { th scope="col" class="count" { (kind.name()) } }
                        } }
                        tbody {
                            @for piece in told() { tr {
                                th scope="row" { a href=(rows_of(piece, step)) { (words::short_clock(piece.from, with_day)) } }
                                @for count in piece.counts { td class="count" { (number(count)) } }
                            } }
                        }
                    }
                }
            }
        }
    }
}

/// Where the rows behind a piece are.
fn rows_of(piece: &Piece, step: Duration) -> String {
    let (from, to) = (words::minute(piece.from), words::minute(piece.from.plus(step)));
    words::link("/console/search", [("from", from.as_str()), ("to", to.as_str())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::audit::Decision;
    use crate::store::Tally;

    const NOW: Timestamp = Timestamp::from_micros(1_796_094_764_500_000);

    fn tally(back: Duration, decision: Decision, is_unclear: bool, rows: u64) -> Tally {
        let minute = 60_000_000;
        let from = Timestamp::from_micros(NOW.minus(back).as_micros() / minute * minute);
        Tally { from, decision, is_unclear, rows }
    }

    #[test]
    fn every_piece_has_its_place_and_the_last_one_runs() {
        let now = Duration::ZERO;
        let old = Duration::from_mins(59);
        let tallies = vec![
            tally(now, Decision::Allowed, true, 1),
            tally(now, Decision::Allowed, false, 2),
            tally(old, Decision::Denied, false, 3),
            tally(Duration::from_hours(1), Decision::Denied, false, 100),
        ];
        let pieces = pieces(Range::Hour, &Counted { tallies, now: NOW });
        assert_eq!(pieces.len(), 60);
        assert_eq!(pieces.first().map(|piece| piece.counts), Some([0, 0, 0, 3]));
        assert_eq!(pieces.last().map(|piece| piece.counts), Some([1, 2, 0, 0]));
        assert_eq!(pieces.iter().map(Piece::sum).sum::<u64>(), 6, "what is older is not shown");
    }

    #[test]
    fn one_unknown_outcome_is_seen_among_thousands_and_nothing_leaves_the_plot() {
        let piece = Piece { from: NOW, counts: [1, 100_000, 0, 1] };
        let parts = stack(&piece, nice(piece.sum()));
        assert_eq!(parts.first().map(|(kind, ..)| *kind), Some(Outcome::Unknown));
        assert!(parts.iter().all(|(_, from, height)| *height > 0.5 && from + height <= 100.01), "{parts:?}");
        let full = Piece { from: NOW, counts: [1, 100, 0, 0] };
        assert!(stack(&full, 100).iter().all(|(_, from, height)| from + height <= 100.01));
    }

    #[test]
    fn scales_end_at_round_numbers() {
        for (most, top) in
            [(0, 2), (2, 2), (3, 4), (5, 6), (11, 12), (141, 160), (161, 200), (399, 400), (401, 600)]
        {
            assert_eq!(nice(most), top);
        }
        assert!(nice(u64::MAX) > 1);
    }
}
