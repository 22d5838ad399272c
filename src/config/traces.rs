//! Where traces go: what is checked of it, and what every program hears of it from its environment.
//!
//! Promises: the variables that OpenTelemetry has for all programs (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like) count where
//! nothing of this house says otherwise: below the file.
//!
//! Absent on purpose: gRPC. A variable that says `grpc` speaks of another port.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use toml::Spanned;

use super::checked::TracesConfig;
use super::checks::Checks;
use super::files;
use super::number::Ratio;
use super::raw::RawTraces;

/// Where collectors take traces.
const PATH: &str = "/v1/traces";

/// The variables of all programs that name a collector, the first before the second.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Those that say by which protocol.
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];

/// The variable that names the collector, and what it says; none where none does, or another says that nothing is wanted.
pub(super) fn named_for_all(environment: &[(OsString, OsString)]) -> Option<(&'static str, String)> {
    let all: HashMap<_, _> =
        environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?))).collect();
    let said = |names: [&'static str; 2]| {
        let found = names.into_iter().find_map(|name| Some((name, *all.get(name)?)));
        found.filter(|(_, value)| !value.is_empty())
    };
    let off = all.get("OTEL_SDK_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true"))
        || all.get("OTEL_TRACES_EXPORTER").is_some_and(|word| *word == "none")
        || said(PROTOCOLS).is_some_and(|(_, word)| word == "grpc");
    said(ENDPOINTS).filter(|_| !off).map(|(name, value)| (name, value.to_owned()))
}

impl Checks<'_> {
    /// Where spans go. None where nobody wants them, or what is set is a mistake.
    pub(super) fn traces(&mut self, raw: &RawTraces) -> Option<TracesConfig> {
        let url = raw.otlp_url.as_ref().map(|value| self.collector(value));
        let headers = match &raw.headers_file {
            None => Some(HeaderMap::new()),
            Some(value) => match read_headers(value.get_ref().as_ref()) {
                Ok(headers) => Some(headers),
                Err(message) => {
                    let help = "each line is a header of every request to the collector: Name: value";
                    self.at_with(value, message, help);
                    None
                }
            },
        };
        let ca_file = match &raw.ca_file {
            None => Some(None),
            Some(value) => self.readable(value).map(Some),
        };
        let sample_ratio = match &raw.sample_ratio {
            None => Some(1.0),
            Some(value) => self.ratio(value),
        };
        let (headers, ca_file, sample_ratio) = (headers?, ca_file?, sample_ratio?);
        Some(TracesConfig { url: url??, headers, ca_file, sample_ratio })
    }

    fn collector(&mut self, value: &Spanned<String>) -> Option<Uri> {
        let uri = self.url(value)?;
        if uri.query().is_some() {
            self.at_with(value, "traces.otlp_url has a query", "access goes into traces.headers_file");
            return None;
        }
        let path = uri.path().trim_end_matches('/');
        let path = if path.ends_with(PATH) { path.to_owned() } else { format!("{path}{PATH}") };
        let mut parts = uri.into_parts();
        parts.path_and_query = path.parse().ok();
        Uri::from_parts(parts).ok()
    }

    fn ratio(&mut self, value: &Spanned<Ratio>) -> Option<f64> {
        let Ratio(ratio) = *value.get_ref();
        let found = (0.0..=1.0).contains(&ratio);
        if !found {
            self.at(value, format!("traces.sample_ratio = {ratio} makes no sense; it may be 0 to 1"));
        }
        found.then_some(ratio)
    }
}

/// The headers in a file. A message says what is wrong with it, and never what stands in it.
fn read_headers(path: &Path) -> Result<HeaderMap, String> {
    let text = files::read_text(path)?;
    let mut headers = HeaderMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let header = line.split_once(':').and_then(|(name, value)| {
            let name: HeaderName = name.trim().parse().ok()?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        let (name, value) =
            header.ok_or_else(|| format!("line {} of {} is not a header", at + 1, path.display()))?;
        headers.append(name, value);
    }
    Ok(headers)
}
