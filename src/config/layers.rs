//! The sources laid over each other: file, environment, flags.
//!
//! Promises: of a setting that stands in several sources, the uppermost counts, whole; of settings that exclude each
//! other, one in an upper source takes the place of the others below it.
//!
//! Variables and flags are written down as a TOML text, one setting to a line, and read as the file is: so there is
//! one reader and one set of rules, and the line of a mistake leads back to the variable or the flag. Before each
//! text stand as many blanks as all texts before it are long. Thus a position says which source it is in.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue, Deserializer};

use super::flags::ConfigFlags;
use super::raw::RawConfig;
use super::settings::{PREFIX, SETTINGS, Setting, TABLES};
use super::traces::named_for_all;
use crate::domain::mistake::{Mistake, Mistakes, Place, position};

/// The file that is read where nobody names one.
pub(super) const USUAL_FILE: &str = "oncegate.toml";

/// Names the file.
pub(super) const FILE_VARIABLE: &str = "ONCEGATE_CONFIG";

/// Variables of this house that are no settings.
const NO_SETTINGS: [&str; 3] = [FILE_VARIABLE, "ONCEGATE_LOG", "ONCEGATE_LOG_FORMAT"];

/// The tables whose keys are settings of their own; any other table is one setting's value.
const SECTIONS: [&str; 9] =
    ["upstream", "auth", "claims", "store", "herd", "audit", "policy", "limits", "traces"];

/// Settings of one section that exclude each other.
const ALTERNATIVES: [&[&str]; 3] = [
    &["hs256_secret_file", "public_key_file", "jwks_file", "jwks_url"],
    &["url", "url_file"],
    &["redis_url", "redis_url_file"],
];

/// What all sources say, before any command asks for its part.
pub struct Layers {
    pub(super) raw: RawConfig,
    pub(super) sources: Sources,
    /// The file, where there is one.
    pub(super) file: Option<PathBuf>,
    /// The folder in which no file was found, where none was named.
    looked_in: Option<PathBuf>,
}

/// Where every position came from.
#[derive(Default)]
pub(super) struct Sources(Vec<Source>);

struct Source {
    /// The blanks before the text, and the text.
    padded: String,
    /// How many blanks.
    base: usize,
    origin: Origin,
}

enum Origin {
    File(PathBuf),
    /// One place for each line.
    Lines(Vec<Place>),
}

/// One setting as a line of TOML.
struct Line {
    place: Place,
    text: String,
}

impl Layers {
    /// Reads the file, the environment and the flags.
    pub fn load(flags: &ConfigFlags) -> Result<Self, Mistakes> {
        let file = flags.config_file();
        let text = match &file {
            Some(path) => Some(fs::read_to_string(path).map_err(|error| {
                let text = error.to_string();
                let reason = text.split(" (os error").next().unwrap_or_default().to_lowercase();
                Mistake::in_file(path, format!("the configuration cannot be read: {reason}"))
            })?),
            None => None,
        };
        let looked_in = if file.is_none() { env::current_dir().ok() } else { None };
        let named = file.as_deref().zip(text.as_deref());
        let merged = Self::merge(named, env::vars_os(), flags)?;
        Ok(Self { file, looked_in, ..merged })
    }

    /// Mistakes in what is configured. That no file was found explains most of them, so it is said first.
    pub(super) fn explained(&self, mistakes: Mistakes) -> Mistakes {
        let Some(folder) = &self.looked_in else { return mistakes };
        let message = format!("no {USUAL_FILE} in {}", folder.display());
        mistakes.behind(Mistake::new(Place::Settings, message).with_help("--config FILE names one"))
    }

    /// Lays a file's text, an environment and flags over each other.
    pub fn merge(
        file: Option<(&Path, &str)>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        flags: &ConfigFlags,
    ) -> Result<Self, Mistakes> {
        let mut sources = Sources::default();
        let environment: Vec<_> = environment.into_iter().collect();
        sources.add_lines(for_all_programs(&environment));
        if let Some((path, text)) = file {
            sources.add(text, Origin::File(path.to_owned()));
        }
        sources.add_lines(variables(environment)?);
        sources.add_lines(flag_lines(flags));
        let raw = sources.read()?;
        Ok(Self { raw, sources, file: file.map(|(path, _)| path.to_owned()), looked_in: None })
    }
}

impl Sources {
    fn add(&mut self, text: &str, origin: Origin) {
        let base = self.0.last().map_or(0, |last| last.padded.len() + 1);
        self.0.push(Source { padded: format!("{}{text}", " ".repeat(base)), base, origin });
    }

    fn add_lines(&mut self, lines: Vec<Line>) {
        let text = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        self.add(&text, Origin::Lines(lines.into_iter().map(|line| line.place).collect()));
    }

    fn read(&self) -> Result<RawConfig, Mistakes> {
        let mut whole = DeTable::new();
        for source in &self.0 {
            let table = DeTable::parse(&source.padded).map_err(|error| {
                let span = error.span().unwrap_or(source.base..source.base);
                Mistake::of_toml(source.place(&span), &error)
            })?;
            overlay(&mut whole, table.into_inner());
        }
        let read = RawConfig::deserialize(Deserializer::from(toml::Spanned::new(0..0, whole)));
        read.map_err(|error| {
            let place = error.span().map_or(Place::Settings, |span| self.place(&span));
            let meant = match &place {
                Place::Variable(name) => meant_variable(name),
                Place::File { .. } | Place::Flag(_) | Place::Settings => None,
            };
            let mistake = Mistake::of_toml(place, &error);
            match meant {
                Some(meant) => mistake.with_help(format!("did you mean {meant}?")).into(),
                None => mistake.into(),
            }
        })
    }

    /// Where a position is.
    pub(super) fn place(&self, span: &Range<usize>) -> Place {
        let source = self.0.iter().rev().find(|source| source.base <= span.start);
        source.map_or(Place::Settings, |source| source.place(span))
    }
}

impl Source {
    fn place(&self, span: &Range<usize>) -> Place {
        let text = self.padded.get(self.base..).unwrap_or_default();
        let at = position(text, span.start.saturating_sub(self.base));
        match &self.origin {
            Origin::File(path) => Place::File { path: path.clone(), at: Some(at) },
            Origin::Lines(places) => places.get(at.line - 1).cloned().unwrap_or(Place::Settings),
        }
    }
}

fn overlay<'a>(below: &mut DeTable<'a>, above: DeTable<'a>) {
    // Before anything is laid over: alternatives within one source stay, and are told as a mistake.
    for group in ALTERNATIVES {
        if above.keys().any(|key| group.contains(&key.get_ref().as_ref())) {
            for name in group {
                below.remove(*name);
            }
        }
    }
    for (key, mut value) in above {
        let name = key.get_ref().as_ref();
        if SECTIONS.contains(&name)
            && let Some(DeValue::Table(under)) = below.get_mut(name).map(toml::Spanned::get_mut)
            && let DeValue::Table(over) = value.get_mut()
        {
            overlay(under, std::mem::take(over));
            continue;
        }
        // Taken out first: a key that is there already would keep its old position.
        below.remove(name);
        below.insert(key, value);
    }
}

fn variables(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Vec<Line>, Mistakes> {
    let (mut lines, mut mistakes) = (Vec::new(), Vec::new());
    for (name, value) in environment {
        let name = name.to_string_lossy().into_owned();
        let Some(path) = name.strip_prefix(PREFIX) else { continue };
        if NO_SETTINGS.contains(&name.as_str()) || is_service_link(path) {
            continue;
        }
        let key: Vec<String> = path.to_ascii_lowercase().split("__").map(quoted).collect();
        let place = Place::Variable(name.clone());
        let table = path.to_ascii_lowercase().split("__").next().unwrap_or_default().to_owned();
        if TABLES.contains(&table.as_str()) {
            let mistake = Mistake::new(place, format!("{table} cannot be set by a variable"));
            mistakes.push(mistake.with_help("its tables stand in the file only"));
            continue;
        }
        match value.to_str() {
            Some(value) => {
                lines.push(Line { place, text: format!("{} = {}", key.join("."), plain_value(value)) });
            }
            None => mistakes.push(Mistake::new(place, "its value is not UTF-8")),
        }
    }
    Mistakes::none_in(mistakes)?;
    lines.sort_by(|one, other| one.place.cmp(&other.place));
    Ok(lines)
}

/// What the variables of all programs say, where nothing of this house says otherwise.
fn for_all_programs(environment: &[(OsString, OsString)]) -> Vec<Line> {
    let line = |(name, value): (&str, String)| Line {
        place: Place::Variable(name.to_owned()),
        text: format!("traces.otlp_url = {}", quoted(&value)),
    };
    named_for_all(environment).map(line).into_iter().collect()
}

/// The variable that a name is, but for how many underscores stand where: `ONCEGATE_STORE_URL`.
fn meant_variable(name: &str) -> Option<String> {
    let plain = |text: &str| text.replace('_', "");
    SETTINGS.iter().map(Setting::variable).find(|known| known != name && plain(known) == plain(name))
}

fn flag_lines(flags: &ConfigFlags) -> Vec<Line> {
    let line = |(setting, values): &(&Setting, Vec<String>)| {
        let value = match values.as_slice() {
            [one] => plain_value(one),
            several => format!("[{}]", several.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", ")),
        };
        Line { place: Place::Flag(format!("--{}", setting.flag)), text: format!("{} = {value}", setting.key) }
    };
    flags.given().iter().map(line).collect()
}

/// A value as TOML: a list or a table as it is written, anything else as a string, in one line either way.
fn plain_value(text: &str) -> String {
    let text = text.trim();
    if text.starts_with(['[', '{']) { text.replace(['\n', '\r'], " ") } else { quoted(text) }
}

/// A string of JSON is one of TOML, but for DEL, which TOML wants escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Whether Kubernetes set the variable, for a Service that is named `oncegate` or `oncegate-…`:
/// `…SERVICE_HOST`, `…SERVICE_PORT`, `…PORT`, `…PORT_8080_TCP_ADDR`. No setting is named so.
fn is_service_link(path: &str) -> bool {
    let words: Vec<&str> = path.split('_').collect();
    words
        .windows(2)
        .any(|pair| matches!(pair, ["SERVICE", "HOST" | "PORT"] | ["PORT", "TCP" | "UDP" | "SCTP"]))
        || words.windows(2).any(|pair| matches!(pair, ["PORT", number] if number.parse::<u16>().is_ok()))
        || words.last() == Some(&"PORT")
}
