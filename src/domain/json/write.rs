//! The exact writer: compact, members in their order, numbers as they were written, as few escapes as JSON allows.

use std::fmt;

use super::Json;

impl Json {
    /// Appends the JSON text.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(number) => out.extend_from_slice(number.as_str().as_bytes()),
            Self::String(text) => write_string(text, out),
            Self::Array(elements) => {
                out.push(b'[');
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    element.write_to(out);
                }
                out.push(b']');
            }
            Self::Object(object) => {
                out.push(b'{');
                for (at, (name, value)) in object.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write_string(name, out);
                    out.push(b':');
                    value.write_to(out);
                }
                out.push(b'}');
            }
        }
    }

    /// The JSON text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_bytes()).map_err(|_| fmt::Error)?)
    }
}

/// Appends a string with its quotes. Runs that need no escape are copied in one piece.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        let (run, special) = rest.split_at(at);
        out.extend_from_slice(run);
        let Some((byte, after)) = special.split_first() else { break };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                let digits = [control >> 4, control & 0xf];
                out.extend(digits.iter().filter_map(|digit| HEX.get(usize::from(*digit))));
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
