//! Server-sent events: an incremental reader, and a writer.
//!
//! Promises: however the bytes are cut into chunks, the same events come out, and the same fault at the same place; no
//! event takes more memory than its limit; what is not UTF-8 is a fault and is never replaced by other characters.
//!
//! Absent on purpose: reconnecting. Whoever lost a stream asks the ledger, not the stream. An event that the stream's
//! end cut short is dropped, as the standard says: half an answer is no answer.

use memchr::memchr2;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its type; `message` where it names none.
    pub name: String,
    /// Its data lines, a line feed between each two; none where it only sets an id or a pause.
    pub data: Option<String>,
    /// Its `id`, where it has one.
    pub id: Option<String>,
    /// Its `retry`, in milliseconds, where it has one.
    pub retry: Option<u64>,
}

/// Why a stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseFault {
    /// One event, or one line of comment, is larger than is taken.
    #[error("an event of the stream is larger than {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
    /// A line that counts is not UTF-8.
    #[error("the event stream is not UTF-8")]
    NotUtf8,
}

/// The comment that keeps an idle connection open.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// Reads an event stream, chunk by chunk.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The line that is being read, without its end.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return, so that a line feed next belongs to it.
    after_return: bool,
    /// Whether no line was read yet: the first one may begin with a byte order mark.
    at_start: bool,
    event: Partial,
    fault: Option<SseFault>,
}

/// An event whose blank line has not come yet.
#[derive(Debug, Default)]
struct Partial {
    name: String,
    data: Option<String>,
    id: Option<String>,
    retry: Option<u64>,
}

impl Decoder {
    /// A reader that takes events, and lines of comment, of at most so many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            event: Partial::default(),
            fault: None,
        }
    }

    /// Takes the next chunk, and returns the events that it completes. A fault ends the stream: it is told by the
    /// first call that has no event from before it, and by every later one.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<Vec<Event>, SseFault> {
        let mut events = Vec::new();
        if self.fault.is_none() {
            self.fault = self.read(chunk, &mut events).err();
        }
        match self.fault {
            Some(fault) if events.is_empty() => Err(fault),
            Some(_) | None => Ok(events),
        }
    }

    fn read(&mut self, chunk: &[u8], events: &mut Vec<Event>) -> Result<(), SseFault> {
        let mut rest = chunk;
        while let Some((first, after_first)) = rest.split_first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = after_first;
                continue;
            }
            let length = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let (piece, end) = rest.split_at(length);
            if self.line.len() + piece.len() + self.event.size() > self.limit {
                return Err(SseFault::TooLarge { limit: self.limit });
            }
            self.line.extend_from_slice(piece);
            let Some((end, after)) = end.split_first() else { return Ok(()) };
            self.after_return = *end == b'\r';
            events.extend(self.end_line()?);
            rest = after;
        }
        Ok(())
    }

    /// Takes the line that has ended; a blank one ends the event.
    fn end_line(&mut self) -> Result<Option<Event>, SseFault> {
        let bytes = std::mem::take(&mut self.line);
        let mark = if std::mem::take(&mut self.at_start) { "\u{feff}" } else { "" };
        let line = bytes.strip_prefix(mark.as_bytes()).unwrap_or(&bytes);
        if line.is_empty() {
            return Ok(std::mem::take(&mut self.event).complete());
        }
        if line.first() != Some(&b':') {
            self.event.take(std::str::from_utf8(line).map_err(|_| SseFault::NotUtf8)?);
        }
        Ok(None)
    }
}

impl Partial {
    /// How much memory it takes, in bytes.
    fn size(&self) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.len() + 1);
        self.name.len() + data + self.id.as_ref().map_or(0, String::len)
    }

    /// Takes one line: a field's name, and after a colon and at most one blank its value.
    fn take(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => self.retry = value.parse().ok(),
            _ => {}
        }
    }

    /// The event, where it says anything that a reader must know.
    fn complete(self) -> Option<Event> {
        let says = self.data.is_some() || self.id.is_some() || self.retry.is_some();
        let name = if self.name.is_empty() { "message".to_owned() } else { self.name };
        says.then_some(Event { name, data: self.data, id: self.id, retry: self.retry })
    }
}

impl Event {
    /// A message without an id.
    pub fn message(data: impl Into<String>) -> Self {
        Self { name: "message".to_owned(), data: Some(data.into()), id: None, retry: None }
    }

    /// Its bytes on a stream. Line ends in its name and id are dropped; those in its data make it several lines.
    pub fn encode(&self) -> Vec<u8> {
        let data = self.data.as_deref().unwrap_or_default();
        let mut bytes = Vec::with_capacity(self.name.len() + data.len() + 32);
        if self.data.is_some() {
            field(&mut bytes, "event", &self.name);
        }
        if let Some(id) = &self.id {
            field(&mut bytes, "id", id);
        }
        if let Some(retry) = self.retry {
            field(&mut bytes, "retry", &retry.to_string());
        }
        if self.data.is_some() {
            let mut rest = data;
            loop {
                let end = memchr2(b'\n', b'\r', rest.as_bytes());
                line(&mut bytes, "data", rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
                let Some(after) = end.and_then(|end| rest.get(end..)) else { break };
                rest = after.strip_prefix("\r\n").or_else(|| after.get(1..)).unwrap_or_default();
            }
        }
        bytes.push(b'\n');
        bytes
    }
}

fn field(bytes: &mut Vec<u8>, name: &str, value: &str) {
    line(bytes, name, &value.replace(['\n', '\r'], ""));
}

fn line(bytes: &mut Vec<u8>, name: &str, value: &str) {
    for piece in [name, ": ", value, "\n"] {
        bytes.extend_from_slice(piece.as_bytes());
    }
}
