//! A route's path as the policy writes it: `/api/orders/{order}/refunds`, `/files/*`.
//!
//! Promises: of two templates that fit one path, one is the more specific, or they are the same template but for the
//! names in it; what a template is taken for by a lenient app is found as well.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::path::{NormalPath, PathFault, Segment};

/// A path with places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
    ends_in_slash: bool,
}

/// What fits one segment, or the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// This segment.
    Literal(Segment),
    /// Any one segment.
    Parameter(String),
    /// All that follows, one segment at least. It stands last.
    Rest,
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::domain::policy) enum TemplateFault {
    #[error("it is empty")]
    Nothing,
    #[error("a query is no part of a path: what is asked for by it is one operation")]
    Query,
    #[error(transparent)]
    NotNormal(#[from] PathFault),
    #[error("a parameter is a whole segment, between braces: {{order}}")]
    Part,
    #[error("a parameter's name has letters, digits and underscores only")]
    Name,
    #[error("{{{0}}} stands in it twice")]
    Twice(String),
    #[error("a * stands for the whole rest, as the last segment")]
    Star,
}

/// How the names of scripts end that a server runs although more of a path follows.
const SCRIPTS: [&str; 9] = ["php", "phtml", "cgi", "fcgi", "pl", "py", "asp", "aspx", "ashx"];

/// What ends a path, or a query's value, once it is decoded.
const QUERY_MARKS: [char; 3] = ['?', '#', '&'];

/// How narrowly a piece says what it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Rest,
    Parameter,
    Literal,
}

impl Template {
    pub(in crate::domain::policy) fn parse(text: &str) -> Result<Self, TemplateFault> {
        if text.is_empty() {
            return Err(TemplateFault::Nothing);
        }
        if text.contains('?') {
            return Err(TemplateFault::Query);
        }
        let rest = text.strip_prefix('/').ok_or(PathFault::NotAbsolute)?;
        let (inner, ends_in_slash) = match rest.strip_suffix('/') {
            Some(inner) => (inner, true),
            None => (rest, rest.is_empty()),
        };
        let mut template = Self { text: text.to_owned(), pieces: Vec::new(), ends_in_slash };
        if rest.is_empty() {
            return Ok(template);
        }
        let mut names = BTreeSet::new();
        for segment in inner.split('/') {
            if matches!(template.pieces.last(), Some(Piece::Rest)) {
                return Err(TemplateFault::Star);
            }
            let piece = piece(segment)?;
            if let Piece::Parameter(name) = &piece
                && !names.insert(name.clone())
            {
                return Err(TemplateFault::Twice(name.clone()));
            }
            template.pieces.push(piece);
        }
        if ends_in_slash && template.opens_a_prefix() {
            return Err(TemplateFault::Star);
        }
        Ok(template)
    }

    /// As the policy writes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same for any two templates that fit the same paths.
    pub(in crate::domain::policy) fn shape(&self) -> String {
        self.written_with(|segment| &segment.written)
    }

    /// The same for any two templates that some app takes for one.
    pub(in crate::domain::policy) fn folded_shape(&self) -> String {
        self.written_with(|segment| &segment.folded).trim_end_matches('/').to_owned()
    }

    fn written_with<'a>(&'a self, literal: impl Fn(&'a Segment) -> &'a str) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Literal(segment) => format!("/{}", literal(segment)),
            Piece::Parameter(_) => "/{}".to_owned(),
            Piece::Rest => "/*".to_owned(),
        });
        pieces.chain(self.ends_in_slash.then(|| "/".to_owned())).collect()
    }

    /// Whether it ends in `/*`.
    pub fn opens_a_prefix(&self) -> bool {
        matches!(self.pieces.last(), Some(Piece::Rest))
    }

    /// Whether the path is one of its own.
    pub(super) fn fits(&self, path: &NormalPath) -> bool {
        let of_length = self.is_of_length(path.segments.len());
        let slash = self.opens_a_prefix() || self.ends_in_slash == path.ends_in_slash;
        let own = |(piece, segment): (&Piece, &Segment)| match piece {
            Piece::Literal(literal) => literal.written == segment.written,
            Piece::Parameter(_) | Piece::Rest => true,
        };
        of_length && slash && self.pieces.iter().zip(&path.segments).all(own)
    }

    /// Whether some app takes these segments for a path of its own.
    fn resembles(&self, segments: &[Segment]) -> bool {
        let last = segments.len().saturating_sub(1);
        let alike = |(at, (piece, segment)): (usize, (&Piece, &Segment))| match piece {
            Piece::Literal(literal) => {
                let rest = segment.folded.strip_prefix(&literal.folded);
                // Some apps take what follows a last dot for the answer's format.
                rest.is_some_and(|rest| {
                    rest.is_empty() || at == last && (rest.starts_with('.') || rest.starts_with(QUERY_MARKS))
                })
            }
            Piece::Parameter(_) | Piece::Rest => true,
        };
        self.is_of_length(segments.len()) && self.pieces.iter().zip(segments).enumerate().all(alike)
    }

    /// Whether some app could take the path, which `own` fits, for one of this template's, which says it more narrowly.
    pub(super) fn is_meant_instead_of(&self, own: &Self, path: &NormalPath) -> bool {
        self.readings(path)
            .any(|(skipped, segments)| (0..segments.len()).any(|at| self.rank(at) > own.rank(at + skipped)))
    }

    /// The parts of a path that some app takes for one of this template's, each with the count of what goes before it. PHP
    /// and CGI run a script whatever follows it, and behind its front controller PHP takes what follows for the path. A server
    /// that decodes a path and writes it anew, or into a query (`/index.php?q=$uri`), ends it where a query has its marks.
    fn readings<'a>(&'a self, path: &'a NormalPath) -> impl Iterator<Item = (usize, &'a [Segment])> {
        let scripts = path.segments.iter().enumerate().filter(|(_, segment)| is_script(segment));
        let marked =
            path.segments.iter().enumerate().filter(|(_, segment)| segment.folded.contains(QUERY_MARKS));
        let cut = marked.filter_map(|(at, _)| Some((0, path.segments.get(..=at)?)));
        let beside = scripts.flat_map(|(at, _)| {
            let (through, behind) = path.segments.split_at_checked(at + 1).unwrap_or_default();
            [(0, through), (at + 1, behind)]
        });
        std::iter::once((0, path.segments.as_slice()))
            .chain(beside)
            .chain(cut)
            .filter(|(_, segments)| self.resembles(segments))
    }

    /// Which of two that fit one path of this many segments is the more specific: the first segment in which they differ
    /// decides.
    pub(super) fn specificity(&self, other: &Self, segments: usize) -> Ordering {
        let ranks = |template: &Self| (0..segments).map(|at| template.rank(at)).collect::<Vec<_>>();
        ranks(self).cmp(&ranks(other))
    }

    fn is_of_length(&self, segments: usize) -> bool {
        if self.opens_a_prefix() { segments >= self.pieces.len() } else { segments == self.pieces.len() }
    }

    fn rank(&self, at: usize) -> Rank {
        match self.pieces.get(at) {
            Some(Piece::Literal(_)) => Rank::Literal,
            Some(Piece::Parameter(_)) => Rank::Parameter,
            Some(Piece::Rest) | None => Rank::Rest,
        }
    }

    /// The names of its parameters.
    pub(in crate::domain::policy) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Parameter(name) => Some(name.as_str()),
            Piece::Literal(_) | Piece::Rest => None,
        })
    }

    /// What stands in the path for each of its names.
    pub(super) fn parameters(&self, path: &NormalPath) -> Vec<(String, String)> {
        let found = self.pieces.iter().zip(&path.segments).filter_map(|(piece, segment)| match piece {
            Piece::Parameter(name) => Some((name.clone(), segment.decoded.clone())),
            Piece::Literal(_) | Piece::Rest => None,
        });
        found.collect()
    }
}

impl NormalPath {
    /// Whether some app takes it for this other path, which is another one.
    pub fn is_taken_for(&self, other: &str) -> bool {
        let other = Template::parse(other);
        other.is_ok_and(|other| !other.fits(self) && other.readings(self).next().is_some())
    }
}

fn is_script(segment: &Segment) -> bool {
    segment.folded.rsplit_once('.').is_some_and(|(_, ending)| SCRIPTS.contains(&ending))
}

fn piece(text: &str) -> Result<Piece, TemplateFault> {
    if text == "*" {
        return Ok(Piece::Rest);
    }
    if let Some(name) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let sound = !name.is_empty() && letters && !name.starts_with(|first: char| first.is_ascii_digit());
        return if sound { Ok(Piece::Parameter(name.to_owned())) } else { Err(TemplateFault::Name) };
    }
    if text.contains(['{', '}']) {
        return Err(TemplateFault::Part);
    }
    if text.contains('*') {
        return Err(TemplateFault::Star);
    }
    Ok(Piece::Literal(Segment::parse(text)?))
}
