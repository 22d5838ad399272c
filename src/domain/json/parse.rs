//! The parser that guards.
//!
//! Promises: every text that it accepts has one meaning. Strict RFC 8259, and stricter where readers differ: no
//! byte order mark, nothing after the value, no half surrogate pairs, no member twice (compared after unescaping).
//!
//! It recurses, at most [`MAX_DEPTH`] levels deep, so that neither reading nor writing nor dropping a value can
//! exhaust a stack.

use std::collections::HashSet;

use super::{FaultKind, Json, JsonFault, Number, Object};

/// The deepest nesting of arrays and objects that is ever read.
pub const MAX_DEPTH: usize = 128;

/// Up to so many members, a name is compared with each; beyond, hashing is faster, and never quadratic.
const FEW_MEMBERS: usize = 16;

impl Json {
    /// Reads one JSON text. Arrays and objects may nest `max_depth` levels deep, [`MAX_DEPTH`] at most.
    pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Self, JsonFault> {
        let text = std::str::from_utf8(bytes)
            .map_err(|fault| JsonFault { offset: fault.valid_up_to(), kind: FaultKind::NotUtf8 })?;
        let mut parser = Parser { text, at: 0, max_depth: max_depth.min(MAX_DEPTH) };
        if text.starts_with('\u{feff}') {
            return parser.fail(FaultKind::ByteOrderMark);
        }
        parser.blanks();
        let value = parser.value(0)?;
        parser.blanks();
        if parser.peek().is_some() {
            return parser.fail(FaultKind::Trailing);
        }
        Ok(value)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    max_depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Steps over `byte` where it stands here.
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Steps over every byte that `belongs`, and returns them.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len());
        let run = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.at += length;
        run
    }

    fn blanks(&mut self) {
        self.run(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    fn fault(&self, kind: FaultKind) -> JsonFault {
        JsonFault { offset: self.at, kind }
    }

    fn fail<T>(&self, kind: FaultKind) -> Result<T, JsonFault> {
        Err(self.fault(kind))
    }

    /// `what` is due here and something else stands here, or nothing.
    fn missing<T>(&self, what: &'static str) -> Result<T, JsonFault> {
        self.fail(if self.peek().is_some() { FaultKind::Expected { what } } else { FaultKind::CutShort })
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonFault> {
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) | None => self.missing("a value"),
        }
    }

    fn word(&mut self, word: &'static str, value: Json) -> Result<Json, JsonFault> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        self.fail(if word.as_bytes().starts_with(rest) {
            FaultKind::CutShort
        } else {
            FaultKind::Expected { what: "a value" }
        })
    }

    /// Steps into an array or object at `depth`, and returns the depth of what it holds.
    fn enter(&mut self, depth: usize) -> Result<usize, JsonFault> {
        if depth >= self.max_depth {
            return self.fail(FaultKind::TooDeep { limit: self.max_depth });
        }
        self.at += 1;
        self.blanks();
        Ok(depth + 1)
    }

    fn array(&mut self, depth: usize) -> Result<Json, JsonFault> {
        let inner = self.enter(depth)?;
        let mut elements = Vec::new();
        if self.eat(b']') {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value(inner)?);
            self.blanks();
            if self.eat(b']') {
                return Ok(Json::Array(elements));
            }
            if !self.eat(b',') {
                return self.missing("',' or ']'");
            }
            self.blanks();
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonFault> {
        let inner = self.enter(depth)?;
        let mut members = Vec::new();
        let mut hashed = HashSet::new();
        if self.eat(b'}') {
            return Ok(Json::Object(Object::new()));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.missing("a member's name");
            }
            let offset = self.at;
            let name = self.string()?;
            if !is_new(&members, &mut hashed, &name) {
                return Err(JsonFault { offset, kind: FaultKind::Duplicate { name } });
            }
            self.blanks();
            if !self.eat(b':') {
                return self.missing("':'");
            }
            self.blanks();
            members.push((name, self.value(inner)?));
            self.blanks();
            if self.eat(b'}') {
                return Ok(Json::Object(Object::of_unique(members)));
            }
            if !self.eat(b',') {
                return self.missing("',' or '}'");
            }
            self.blanks();
        }
    }

    /// Reads a string from its opening quote on. One without escapes is copied in one piece.
    fn string(&mut self) -> Result<String, JsonFault> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let run = self.run(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    if text.is_empty() {
                        return Ok(run.to_owned());
                    }
                    text.push_str(run);
                    return Ok(text);
                }
                Some(b'\\') => {
                    text.push_str(run);
                    text.push(self.escape()?);
                }
                Some(_) => return self.fail(FaultKind::ControlCharacter),
                None => return self.fail(FaultKind::CutShort),
            }
        }
    }

    /// Reads an escape from its backslash on.
    fn escape(&mut self) -> Result<char, JsonFault> {
        let plain = match self.text.as_bytes().get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            Some(_) => return self.fail(FaultKind::BadEscape),
            None => return self.fail(FaultKind::CutShort),
        };
        self.at += 2;
        Ok(plain)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonFault> {
        let first = self.four_digits(self.at + 2).ok_or_else(|| self.fault(FaultKind::BadEscape))?;
        let (code, length) = match first {
            0xd800..=0xdbff => {
                let second = (self.text.as_bytes().get(self.at + 6..self.at + 8) == Some(b"\\u"))
                    .then(|| self.four_digits(self.at + 8))
                    .flatten()
                    .filter(|code| (0xdc00..=0xdfff).contains(code))
                    .ok_or_else(|| self.fault(FaultKind::LoneSurrogate))?;
                (0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
            }
            _ => (first, 6),
        };
        // What is left without a character is the second half of a pair.
        let character = char::from_u32(code).ok_or_else(|| self.fault(FaultKind::LoneSurrogate))?;
        self.at += length;
        Ok(character)
    }

    fn four_digits(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        // `from_str_radix` alone would take a sign.
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn number(&mut self) -> Result<Number, JsonFault> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.fail(FaultKind::BadNumber);
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        Ok(Number::of_checked(self.text.get(start..self.at).unwrap_or_default()))
    }

    /// Steps over one digit or more.
    fn digits(&mut self) -> Result<(), JsonFault> {
        if !self.run(|byte| byte.is_ascii_digit()).is_empty() {
            return Ok(());
        }
        self.fail(if self.peek().is_some() { FaultKind::BadNumber } else { FaultKind::CutShort })
    }
}

/// Whether no member has this name yet. `hashed` stays empty while the members are few.
fn is_new(members: &[(String, Json)], hashed: &mut HashSet<String>, name: &str) -> bool {
    if members.len() < FEW_MEMBERS {
        return members.iter().all(|(own, _)| own != name);
    }
    if hashed.is_empty() {
        hashed.extend(members.iter().map(|(own, _)| own.clone()));
    }
    hashed.insert(name.to_owned())
}
