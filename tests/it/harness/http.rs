//! Just enough HTTP/1.1 to read one message from a socket and keep every byte of it.
//!
//! Promises: header names and values come as they were sent, in their order, repeats included.
//!
//! Absent on purpose: a library's view. What went over the wire is what the tests argue about, so nothing may fold,
//! sort or drop it on the way.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// One HTTP message: its start line, its headers, its body.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// `POST /mcp HTTP/1.1`, or `HTTP/1.1 200 OK`.
    pub(crate) start: String,
    /// As sent.
    pub(crate) headers: Vec<(String, String)>,
    /// Without its transfer coding.
    pub(crate) body: Bytes,
    /// Whether the body came to its declared end.
    pub(crate) whole: bool,
}

impl Message {
    /// The word of the start line at `place`: a request's method and target, a response's status.
    pub(crate) fn word(&self, place: usize) -> &str {
        self.start.split(' ').nth(place).unwrap_or_default()
    }

    /// A header's only value; two of a name fail the test.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let all = self.headers_named(name);
        assert!(all.len() < 2, "the header {name} came {} times", all.len());
        all.first().copied()
    }

    /// Every value of a header.
    pub(crate) fn headers_named(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }
}

/// Messages of one connection.
pub(crate) struct Reader {
    buffer: BytesMut,
}

impl Reader {
    /// A connection of which nothing was read yet.
    pub(crate) fn new() -> Self {
        Self { buffer: BytesMut::new() }
    }

    /// The next message; none where the connection ended before its head was whole.
    pub(crate) async fn next(&mut self, socket: &mut (impl AsyncRead + Unpin)) -> Option<Message> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            self.more(socket).await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.advance(end + 4);
        let mut lines = head.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let mut message = Message { start, headers, body: Bytes::new(), whole: true };
        self.body(&mut message, socket).await;
        Some(message)
    }

    async fn body(&mut self, message: &mut Message, socket: &mut (impl AsyncRead + Unpin)) {
        let chunked = message.headers_named("transfer-encoding").iter().any(|v| v.contains("chunked"));
        let length = message.header("content-length").and_then(|text| text.parse::<usize>().ok());
        let is_response = message.start.starts_with("HTTP/");
        let bodiless = is_response && matches!(message.word(1), "204" | "304");
        if chunked {
            self.chunks(message, socket).await;
        } else if let Some(length) = length {
            message.whole = self.at_least(length, socket).await;
            let there = length.min(self.buffer.len());
            message.body = self.buffer.split_to(there).freeze();
        } else if is_response && !bodiless {
            while self.more(socket).await.is_some() {}
            message.body = self.buffer.split().freeze();
        }
    }

    async fn chunks(&mut self, message: &mut Message, socket: &mut (impl AsyncRead + Unpin)) {
        let mut body = BytesMut::new();
        message.whole = loop {
            let Some(end) = find(&self.buffer, b"\r\n") else {
                if self.more(socket).await.is_none() {
                    break false;
                }
                continue;
            };
            let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16);
            let size = size.unwrap_or_else(|_| panic!("{line:?} is no chunk's size"));
            self.buffer.advance(end + 2);
            if !self.at_least(size + 2, socket).await {
                body.extend_from_slice(&self.buffer);
                break false;
            }
            body.extend_from_slice(&self.buffer[..size]);
            self.buffer.advance(size + 2);
            if size == 0 {
                break true;
            }
        };
        message.body = body.freeze();
    }

    async fn at_least(&mut self, length: usize, socket: &mut (impl AsyncRead + Unpin)) -> bool {
        while self.buffer.len() < length {
            if self.more(socket).await.is_none() {
                return false;
            }
        }
        true
    }

    async fn more(&mut self, socket: &mut (impl AsyncRead + Unpin)) -> Option<usize> {
        socket.read_buf(&mut self.buffer).await.ok().filter(|read| *read > 0)
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
