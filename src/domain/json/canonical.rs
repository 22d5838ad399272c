//! The canonical form: what a fingerprint is taken of.
//!
//! Promises: two values have the same form exactly if they mean the same. Member order, blanks, escapes and the
//! spelling of numbers (`1`, `1.0`, `10e-1`) do not count; everything else does.
//!
//! Absent on purpose: Unicode normalisation (two spellings of `é` are two strings to every backend) and RFC 8785,
//! whose numbers are doubles, to which 9007199254740993 and …992 are one.

use super::Json;
use super::write::write_string;

impl Json {
    /// The canonical form: itself a JSON text, members sorted by the code points of their names.
    pub fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_canonical(&mut out);
        out
    }

    fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null | Self::Bool(_) | Self::String(_) => self.write_to(out),
            Self::Number(number) => number.write_canonical(out),
            Self::Array(elements) => {
                out.push(b'[');
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    element.write_canonical(out);
                }
                out.push(b']');
            }
            Self::Object(object) => {
                // Strings compare by their UTF-8, whose order is that of code points.
                let mut members: Vec<_> = object.iter().collect();
                members.sort_unstable_by_key(|(name, _)| *name);
                out.push(b'{');
                for (at, (name, value)) in members.into_iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write_string(name, out);
                    out.push(b':');
                    value.write_canonical(out);
                }
                out.push(b'}');
            }
        }
    }
}
