//! The question itself: a template of the policy, filled in for one claim.
//!
//! Promises: what is filled in is what the call brought, whole, or the question is not asked; nothing that is filled in
//! can make a path another path.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::domain::audit::Facts;
use crate::domain::json::{Json, MAX_DEPTH, Object};

/// Whatever is not of RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where an argument is named in a template.
const ARGS: &str = "args.";

/// What the gate puts in place of what it masks, and behind what it cuts.
const MASKED: [&str; 2] = ["***", " characters)"];

/// Who is asked, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// A tool.
    Tool { name: String, arguments: BTreeMap<String, Argument> },
    /// A route of the app.
    Get { path: Template },
}

/// One argument of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// This, always.
    Value(Json),
    /// This, filled in.
    Text(Template),
}

/// A text with places to fill in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Place(Place),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Key,
    ForwardedKey,
    Tenant,
    /// The argument at this path.
    Argument(String),
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateFault {
    /// A brace without its partner.
    #[error("a brace has no partner")]
    Brace,
    /// A name that nothing stands for.
    #[error("nothing stands for {{{0}}}; there are {{key}}, {{forwarded_key}}, {{tenant}} and {{args.NAME}}")]
    Unknown(String),
}

/// The claim that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The client's key.
    pub key: &'a str,
    /// The key that the app heard, without quotes.
    pub forwarded_key: &'a str,
    /// What the claim keeps of its call.
    pub facts: &'a Facts,
}

/// A question to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// This tool, with these arguments.
    Tool {
        /// Its name.
        name: String,
        /// What it is called with.
        arguments: Object,
    },
    /// This path, query and all.
    Get {
        /// It begins with a slash.
        path: String,
    },
}

/// Why a claim cannot be asked about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unaskable {
    /// The claim does not have what the question needs.
    #[error("the claim has no {{{0}}} that is whole: it was masked, shortened, or never there")]
    NotThere(String),
    /// What is filled in would make another path of it.
    #[error("what stands for a segment of the path would lead elsewhere")]
    Elsewhere,
}

impl Ask {
    pub(super) fn about(&self, about: &About<'_>) -> Result<Question, Unaskable> {
        match self {
            Self::Tool { name, arguments } => {
                let mut filled = Object::new();
                for (argument, value) in arguments {
                    let value = match value {
                        Argument::Value(value) => value.clone(),
                        Argument::Text(template) => template.as_argument(about)?,
                    };
                    filled.insert(argument.clone(), value);
                }
                Ok(Question::Tool { name: name.clone(), arguments: filled })
            }
            Self::Get { path } => {
                let path = path.filled(about, |text| utf8_percent_encode(text, RESERVED).to_string())?;
                let (before_query, _) = path.split_once('?').unwrap_or((&path, ""));
                if before_query.split('/').any(|segment| matches!(segment, "." | "..")) {
                    return Err(Unaskable::Elsewhere);
                }
                Ok(Question::Get { path })
            }
        }
    }

    /// Every template in it.
    pub(super) fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Get { path } => vec![path],
            Self::Tool { arguments, .. } => arguments
                .values()
                .filter_map(|argument| match argument {
                    Argument::Text(template) => Some(template),
                    Argument::Value(_) => None,
                })
                .collect(),
        }
    }
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, TemplateFault> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, next) = after.split_once('}').ok_or(TemplateFault::Brace)?;
            push(&mut pieces, before)?;
            pieces.push(Piece::Place(match name {
                "key" => Place::Key,
                "forwarded_key" => Place::ForwardedKey,
                "tenant" => Place::Tenant,
                _ => {
                    match name.strip_prefix(ARGS).filter(|path| path.split('.').all(|part| !part.is_empty()))
                    {
                        Some(path) => Place::Argument(path.to_owned()),
                        None => return Err(TemplateFault::Unknown(name.to_owned())),
                    }
                }
            }));
            rest = next;
        }
        push(&mut pieces, rest)?;
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// As the policy writes it.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it names the call's key.
    pub(super) fn names_the_key(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Place(Place::Key | Place::ForwardedKey)))
    }

    /// The arguments that it names.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Place(Place::Argument(path)) => Some(path.as_str()),
            Piece::Place(Place::Key | Place::ForwardedKey | Place::Tenant) | Piece::Text(_) => None,
        })
    }

    /// An argument that stands alone keeps its type.
    fn as_argument(&self, about: &About<'_>) -> Result<Json, Unaskable> {
        match self.pieces.as_slice() {
            [Piece::Place(Place::Argument(path))] => argument(about.facts, path),
            _ => self.filled(about, str::to_owned).map(Json::from),
        }
    }

    fn filled(&self, about: &About<'_>, write: impl Fn(&str) -> String) -> Result<String, Unaskable> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(own) => text.push_str(own),
                Piece::Place(Place::Key) => text.push_str(&write(about.key)),
                Piece::Place(Place::ForwardedKey) => text.push_str(&write(about.forwarded_key)),
                Piece::Place(Place::Tenant) => text.push_str(&write(&about.facts.tenant_id)),
                Piece::Place(Place::Argument(path)) => {
                    let value = argument(about.facts, path)?;
                    text.push_str(&write(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
                }
            }
        }
        Ok(text)
    }
}

fn push(pieces: &mut Vec<Piece>, text: &str) -> Result<(), TemplateFault> {
    if text.contains('}') {
        return Err(TemplateFault::Brace);
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
    Ok(())
}

/// The argument as the call brought it. The claim keeps arguments masked and shortened: of those, only what masking can
/// not have made is taken. It makes 0 of numbers.
fn argument(facts: &Facts, path: &str) -> Result<Json, Unaskable> {
    let arguments = facts.args.as_deref().and_then(|text| Json::parse(text.as_bytes(), MAX_DEPTH).ok());
    let found = arguments
        .as_ref()
        .and_then(|arguments| path.split('.').try_fold(arguments, |value, name| value.get(name)));
    let is_whole = match found {
        Some(Json::String(text)) => !text.is_empty() && !MASKED.iter().any(|mark| text.contains(mark)),
        Some(Json::Number(number)) => number.as_str().bytes().any(|byte| (b'1'..=b'9').contains(&byte)),
        Some(Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_)) | None => false,
    };
    let found = found.filter(|_| is_whole).cloned();
    found.ok_or_else(|| Unaskable::NotThere(format!("{ARGS}{path}")))
}
