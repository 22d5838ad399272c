//! In which of its two text formats a scraper is answered.
//!
//! Promises: whoever asks for `OpenMetrics` gets it; whoever does not, a person with curl for one, gets Prometheus' own text.

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text, version 0.0.4.
    Prometheus,
    /// `OpenMetrics`, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The one that an `Accept` header wants more.
    pub fn wanted(accept: Option<&str>) -> Self {
        let (mut open, mut text) = (0, 0);
        for range in accept.unwrap_or("*/*").split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1000, thousandths);
            if media.eq_ignore_ascii_case("application/openmetrics-text") {
                open = open.max(weight);
            } else if ["text/plain", "text/*", "*/*"].iter().any(|own| media.eq_ignore_ascii_case(own)) {
                text = text.max(weight);
            }
        }
        if open > 0 && open >= text { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// `0.5` as 500; what is no weight counts as not wanted.
fn thousandths(weight: &str) -> u32 {
    let (whole, part) = weight.split_once('.').unwrap_or((weight, ""));
    let digits = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let part = if digits { format!("{part:0<3}").parse().unwrap_or(0) } else { 0 };
    let whole: u32 = whole.parse().unwrap_or(0);
    (whole.min(1) * 1000 + part).min(1000)
}

#[cfg(test)]
mod tests {
    use super::Format::{self, OpenMetrics, Prometheus};

    #[test]
    fn a_scraper_gets_the_format_that_it_wants_more() {
        for (accept, wanted) in [
            (None, Prometheus),
            (Some("*/*"), Prometheus),
            (Some("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"), Prometheus),
            (Some("application/openmetrics-text"), OpenMetrics),
            (Some("application/openmetrics-text;version=1.0.0;q=0"), Prometheus),
            (Some("application/openmetrics-text;q=0.2,text/plain;q=0.4"), Prometheus),
            // Prometheus 2 and 3.
            (
                Some(
                    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                     text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                ),
                OpenMetrics,
            ),
            (
                Some(
                    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                     text/plain;version=0.0.4;q=0.4,*/*;q=0.1",
                ),
                OpenMetrics,
            ),
        ] {
            assert_eq!(Format::wanted(accept), wanted, "{accept:?}");
        }
    }
}
