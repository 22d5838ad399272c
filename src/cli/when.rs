//! Times as an operator names them: how long ago, or an instant.

use std::time::Duration;

use crate::domain::time::Timestamp;
use crate::domain::units::parse_duration;

/// One end of a range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// So long before the store's now.
    Ago(Duration),
    /// Then.
    At(Timestamp),
}

impl When {
    /// Reads `90s`, `7d`, or `2026-12-01T14:30:00Z`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(ago) = parse_duration(text) {
            return Ok(Self::Ago(ago));
        }
        match text.parse::<jiff::Timestamp>() {
            Ok(at) => Ok(Self::At(Timestamp::from_micros(at.as_microsecond()))),
            Err(_) => Err(format!(
                "\"{text}\" is neither how long ago (\"90s\", \"1h\", \"7d\") nor a time with its zone \
                 (\"2026-12-01T14:30:00Z\", \"2026-12-01T15:30:00+01:00\")"
            )),
        }
    }

    /// How long ago, where it is told so.
    pub(super) fn ago(self) -> Option<Duration> {
        match self {
            Self::Ago(ago) => Some(ago),
            Self::At(_) => None,
        }
    }

    /// The instant, where it is told so.
    pub(super) fn at(self) -> Option<Timestamp> {
        match self {
            Self::Ago(_) => None,
            Self::At(at) => Some(at),
        }
    }

    /// Whether nothing can lie from this on and before the other.
    pub(super) fn is_never_before(self, end: Self) -> bool {
        match (self, end) {
            (Self::Ago(begin), Self::Ago(end)) => begin <= end,
            (Self::At(begin), Self::At(end)) => begin >= end,
            (Self::Ago(_), Self::At(_)) | (Self::At(_), Self::Ago(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_how_long_ago_or_with_its_zone() {
        assert_eq!(When::parse("1h30m"), Ok(When::Ago(Duration::from_mins(90))));
        let at = Ok(When::At(Timestamp::from_micros(1_796_135_400_000_000)));
        assert_eq!(When::parse("2026-12-01T14:30:00Z"), at);
        assert_eq!(When::parse("2026-12-01T15:30:00+01:00"), at);
        for wrong in ["", "yesterday", "2026-12-01", "2026-12-01T14:30:00", "10"] {
            assert!(When::parse(wrong).is_err(), "{wrong}");
        }
    }
}
