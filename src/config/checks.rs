//! Checks of one setting at a time.
//!
//! Promises: a mistake names the line, the variable or the flag that it stands in; a missing setting is told with the
//! key, the flag and the variable that would set it.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use toml::Spanned;

use super::files::{self, Secret};
use super::layers::Sources;
use super::number::{Number, Texts};
use super::settings::SETTINGS;
use crate::domain::mistake::{Mistake, Place};
use crate::domain::units::{Size, Span, duration_text, size_text};

const BODIES: RangeInclusive<u64> = 1024..=64 << 20;

/// Collects mistakes. Whatever returns `None` has told one.
pub(super) struct Checks<'a> {
    pub(super) sources: &'a Sources,
    pub(super) found: Vec<Mistake>,
    /// What may be used all the same.
    pub(super) warnings: Vec<Mistake>,
}

impl Checks<'_> {
    pub(super) fn at<T>(&mut self, value: &Spanned<T>, message: impl Into<String>) {
        self.found.push(Mistake::new(self.sources.place(&value.span()), message));
    }

    pub(super) fn at_with<T>(&mut self, value: &Spanned<T>, message: impl Into<String>, help: &str) {
        self.found.push(Mistake::new(self.sources.place(&value.span()), message).with_help(help));
    }

    pub(super) fn missing(&mut self, keys: &[&str]) {
        let settings: Vec<_> = SETTINGS.iter().filter(|setting| keys.contains(&setting.key)).collect();
        let names =
            |name: fn(&str) -> String| keys.iter().map(|key| name(key)).collect::<Vec<_>>().join(" or ");
        let flags: Vec<_> = settings.iter().map(|setting| format!("--{}", setting.flag)).collect();
        let variables: Vec<_> = settings.iter().map(|setting| setting.variable()).collect();
        let message = format!("{} is missing", names(str::to_owned));
        let help =
            format!("set it in the file, or with {}, or with {}", flags.join(" or "), variables.join(" or "));
        self.found.push(Mistake::new(Place::Settings, message).with_help(help));
    }

    /// A setting without a default; an empty text counts as none.
    pub(super) fn required<'r>(
        &mut self,
        key: &str,
        set: Option<&'r Spanned<String>>,
    ) -> Option<&'r Spanned<String>> {
        let Some(value) = set else {
            self.missing(&[key]);
            return None;
        };
        self.text(key, value)
    }

    pub(super) fn text<'r>(&mut self, key: &str, value: &'r Spanned<String>) -> Option<&'r Spanned<String>> {
        let text = value.get_ref();
        if text.is_empty() || text.trim() != text || text.chars().any(char::is_control) {
            self.at(value, format!("{key} is empty, or has blanks around it or control characters in it"));
            return None;
        }
        Some(value)
    }

    pub(super) fn or(&mut self, key: &str, set: Option<&Spanned<String>>, default: &str) -> Option<String> {
        match set {
            None => Some(default.to_owned()),
            Some(value) => self.text(key, value).map(|text| text.get_ref().clone()),
        }
    }

    /// Every entry of a list, as `parse` takes it; an absent list is an empty one.
    pub(super) fn each<T>(
        &mut self,
        set: Option<&Spanned<Texts>>,
        parse: impl Fn(&str) -> Option<T>,
        kind: &str,
        help: &str,
    ) -> Option<Vec<T>> {
        let Some(texts) = set else { return Some(Vec::new()) };
        let parsed = texts.get_ref().0.iter().map(|text| {
            let entry = parse(text);
            if entry.is_none() {
                self.at_with(texts, format!("\"{text}\" is not {kind}"), help);
            }
            entry
        });
        // All of them are looked at, so that every mistake is told at once.
        parsed.collect::<Vec<_>>().into_iter().collect()
    }

    pub(super) fn span(
        &mut self,
        key: &str,
        set: Option<&Spanned<Span>>,
        default: Duration,
        sound: &RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let Some(value) = set else { return Some(default) };
        let Span(duration) = *value.get_ref();
        if sound.contains(&duration) {
            return Some(duration);
        }
        let message = format!("{key} = \"{}\" makes no sense", duration_text(duration));
        let help = format!("it may be {} to {}", duration_text(*sound.start()), duration_text(*sound.end()));
        self.at_with(value, message, &help);
        None
    }

    pub(super) fn number(
        &mut self,
        key: &str,
        set: Option<&Spanned<Number>>,
        default: usize,
        most: usize,
    ) -> Option<usize> {
        let Some(value) = set else { return Some(default) };
        let Number(number) = *value.get_ref();
        let found = usize::try_from(number).ok().filter(|number| (1..=most).contains(number));
        if found.is_none() {
            self.at(value, format!("{key} = {number} makes no sense; it may be 1 to {most}"));
        }
        found
    }

    pub(super) fn size(&mut self, key: &str, set: Option<&Spanned<Size>>, default: u64) -> Option<u64> {
        self.size_in(key, set, default, &BODIES)
    }

    pub(super) fn size_in(
        &mut self,
        key: &str,
        set: Option<&Spanned<Size>>,
        default: u64,
        sound: &RangeInclusive<u64>,
    ) -> Option<u64> {
        let Some(value) = set else { return Some(default) };
        let Size(bytes) = *value.get_ref();
        if !sound.contains(&bytes) {
            let (least, most) = (size_text(*sound.start()), size_text(*sound.end()));
            self.at(value, format!("{key} = {bytes} bytes makes no sense; it may be {least} to {most}"));
            return None;
        }
        Some(bytes)
    }

    pub(super) fn address(
        &mut self,
        key: &str,
        set: Option<&Spanned<String>>,
        default: &str,
    ) -> Option<SocketAddr> {
        let text = set.map_or(default, |value| value.get_ref());
        let parsed = text.parse().ok();
        if let (None, Some(value)) = (parsed, set) {
            self.at_with(
                value,
                format!("{key} = \"{text}\" is not an address"),
                "write it like \"0.0.0.0:8080\" or \"[::1]:8080\"",
            );
        }
        parsed
    }

    /// An absolute http or https URL without user and fragment.
    pub(super) fn url(&mut self, value: &Spanned<String>) -> Option<Uri> {
        let text = value.get_ref();
        let uri = text.parse::<Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && !text.contains(['#', '@', '"', '\\'])
        });
        if uri.is_none() {
            let help = "write it like \"https://api.example.com/mcp\", without a user or a fragment";
            self.at_with(value, format!("\"{text}\" is not an http or https URL"), help);
        }
        uri
    }

    pub(super) fn secret<T>(&mut self, at: &Spanned<T>, path: &str) -> Option<Secret> {
        files::read_secret(path.as_ref()).map_err(|message| self.at(at, message)).ok()
    }

    /// A file that must be readable at start, and is read by whoever uses it.
    pub(super) fn readable(&mut self, value: &Spanned<String>) -> Option<PathBuf> {
        let path = PathBuf::from(value.get_ref());
        files::read(&path).map_err(|message| self.at(value, message)).ok()?;
        Some(path)
    }
}
