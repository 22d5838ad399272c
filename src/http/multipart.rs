//! `multipart/form-data` (RFC 7578, RFC 2046), read strictly, as it comes.
//!
//! Promises: what is accepted has the same parts, under the same names, to every parser that we know: PHP's, Rack's,
//! busboy's, Go's, Python's and Java's differ in how they take bare line feeds, folded headers, preambles, quoted pairs,
//! encoded words, lengths and encodings of parts, text that looks like a boundary; none of it is let through. It makes no
//! difference how the bytes are cut. What is held back never exceeds a part's header and what is fed at once.
//!
//! Absent on purpose: whatever the parts mean. [`super::content`] and [`super::scanned`] look at them.

mod boundary;
mod fault;
mod part;

use memchr::memchr;

pub use boundary::Boundary;
pub use fault::MultipartFault;
pub use part::Part;
use part::PartHead;

/// The longest header of one part, in bytes.
const MOST_HEADER: usize = 8 * 1024;

/// What is met in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A part's name: told before anything else of it has to be there.
    Named(&'a str),
    /// Its content begins.
    Begins(&'a Part),
    /// Some of its content, never nothing.
    Content(&'a [u8]),
    /// It has ended.
    Ends,
}

/// Reads one body.
#[derive(Debug)]
pub struct Parser {
    boundary: Boundary,
    state: State,
    /// What was fed and not read yet.
    pending: Vec<u8>,
}

#[derive(Debug)]
enum State {
    /// Before the first boundary.
    Start,
    /// Behind a boundary.
    Fork,
    /// In a part's header.
    Header { head: PartHead, length: usize },
    /// In its content, of which so many bytes were told.
    Content { told: u64, due: Option<u64> },
    /// Behind the last boundary.
    Epilogue,
    /// Behind its line.
    End,
}

/// What a step came to.
enum Step {
    /// The next one can be made.
    Taken,
    /// More bytes are needed.
    Starved,
}

impl Parser {
    /// Of a body with this boundary.
    pub fn new(boundary: Boundary) -> Self {
        Self { boundary, state: State::Start, pending: Vec::new() }
    }

    /// Reads on. After a fault, of the body's or of whoever hears the events, nothing may be fed any more.
    pub fn feed<E: From<MultipartFault>>(
        &mut self,
        bytes: &[u8],
        hear: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        while let Step::Taken = self.step(&mut at, hear)? {}
        self.pending.drain(..at);
        Ok(())
    }

    /// Whether the body may end here.
    pub fn finish(self) -> Result<(), MultipartFault> {
        match self.state {
            State::Epilogue | State::End if self.pending.is_empty() => Ok(()),
            State::Epilogue | State::End => Err(MultipartFault::Epilogue),
            State::Start | State::Fork | State::Header { .. } | State::Content { .. } => {
                Err(MultipartFault::CutShort)
            }
        }
    }

    fn step<E: From<MultipartFault>>(
        &mut self,
        at: &mut usize,
        hear: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<Step, E> {
        let rest = self.pending.get(*at..).unwrap_or_default();
        match &mut self.state {
            State::Start => {
                let delimiter = self.boundary.delimiter();
                if begins(rest, delimiter, MultipartFault::Preamble)? {
                    *at += delimiter.len();
                    self.state = State::Fork;
                    return Ok(Step::Taken);
                }
            }
            State::Fork => {
                let Some(two) = rest.get(..2) else { return Ok(Step::Starved) };
                self.state = match two {
                    b"\r\n" => State::Header { head: PartHead::default(), length: 0 },
                    b"--" => State::Epilogue,
                    _ => return Err(MultipartFault::Boundary.into()),
                };
                *at += 2;
                return Ok(Step::Taken);
            }
            State::Header { head, length } => {
                let Some((line, taken)) = line(rest, MOST_HEADER.saturating_sub(*length))? else {
                    return Ok(Step::Starved);
                };
                *at += taken;
                *length += taken;
                if !line.is_empty() {
                    if let Some(name) = head.line(line)? {
                        hear(Event::Named(name))?;
                    }
                    return Ok(Step::Taken);
                }
                let (part, due) = std::mem::take(head).part()?;
                hear(Event::Begins(&part))?;
                self.state = State::Content { told: 0, due };
                return Ok(Step::Taken);
            }
            State::Content { told, due } => {
                let (content, ends) = self.boundary.content(rest)?;
                if !content.is_empty() {
                    *told += content.len() as u64;
                    hear(Event::Content(content))?;
                }
                *at += content.len();
                if ends {
                    // aiohttp reads as many bytes as the part's own header says, boundaries or not.
                    if due.is_some_and(|due| due != *told) {
                        return Err(MultipartFault::Length.into());
                    }
                    hear(Event::Ends)?;
                    *at += 2 + self.boundary.delimiter().len();
                    self.state = State::Fork;
                    return Ok(Step::Taken);
                }
            }
            State::Epilogue => {
                if begins(rest, b"\r\n", MultipartFault::Epilogue)? {
                    *at += 2;
                    self.state = State::End;
                    return Ok(Step::Taken);
                }
            }
            State::End if rest.is_empty() => {}
            State::End => return Err(MultipartFault::Epilogue.into()),
        }
        Ok(Step::Starved)
    }
}

/// Whether all of `due` stands at the beginning; not yet, where too little is there.
fn begins(text: &[u8], due: &[u8], fault: MultipartFault) -> Result<bool, MultipartFault> {
    let there = text.len().min(due.len());
    if text.get(..there) == due.get(..there) { Ok(there == due.len()) } else { Err(fault) }
}

/// The first line, without its end, and how many bytes both take; none where its end has not come.
fn line(text: &[u8], most: usize) -> Result<Option<(&[u8], usize)>, MultipartFault> {
    let end = memchr(b'\n', text);
    if end.map_or(text.len(), |end| end + 1) > most {
        return Err(MultipartFault::HeaderTooLong);
    }
    let Some(end) = end else { return Ok(None) };
    let line = text.get(..end).and_then(|line| line.strip_suffix(b"\r")).ok_or(MultipartFault::LineEnd)?;
    if line.contains(&b'\r') {
        return Err(MultipartFault::LineEnd);
    }
    Ok(Some((line, end + 1)))
}
