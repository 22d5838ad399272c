//! What stands between parts.
//!
//! Promises: of the characters that every parser takes for a boundary's, quoted or not; in content it is met as a
//! whole delimiter or not at all.

use memchr::memmem;

use super::MultipartFault;

/// The longest boundary (RFC 2046, 5.1.1).
const LONGEST: usize = 70;

/// A checked boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// With the two dashes before it.
    delimiter: Vec<u8>,
}

impl Boundary {
    /// That of a content type's parameter, unquoted. RFC 2046 allows commas and spaces too, where PHP ends it; and Rack
    /// takes what follows the last `boundary=` in the whole header.
    pub fn new(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_-./:=?".contains(&byte);
        let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(allowed);
        let one = !text.to_ascii_lowercase().contains("boundary=");
        (fits && one).then(|| Self { delimiter: [b"--", text.as_bytes()].concat() })
    }

    pub(super) fn delimiter(&self) -> &[u8] {
        &self.delimiter
    }

    /// The content at the beginning of `text` that certainly is content, and whether a delimiter follows it at once.
    ///
    /// What looks like a delimiter anywhere else in content is one to some parser: PHP's looks for it behind a bare line
    /// feed, others take one with text behind it, or on a part's first line.
    pub(super) fn content<'a>(&self, text: &'a [u8]) -> Result<(&'a [u8], bool), MultipartFault> {
        let found = memmem::find(text, &self.delimiter);
        // Without one in sight, the last bytes may be the beginning of one, and of the line's end before it.
        let keep = self.delimiter.len() + 1;
        let Some(found) = found else {
            return Ok((text.get(..text.len().saturating_sub(keep)).unwrap_or_default(), false));
        };
        let content = text.get(..found).and_then(|before| before.strip_suffix(b"\r\n"));
        Ok((content.ok_or(MultipartFault::Boundary)?, true))
    }
}
