//! An answer of the gate's, read as it comes.
//!
//! Promises: nothing is read ahead of the test, so that a test can be a slow reader; what came is kept.

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::in_time;

/// A response that is being read.
pub(crate) struct Stream {
    socket: TcpStream,
    raw: BytesMut,
    head: Option<String>,
    body: String,
    ended: bool,
}

impl Stream {
    pub(super) fn of(socket: TcpStream) -> Self {
        Self { socket, raw: BytesMut::new(), head: None, body: String::new(), ended: false }
    }

    /// The response's head, once it is there.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            if let Some(head) = &self.head {
                return head.clone();
            }
            assert!(self.more().await, "the gate closed before it answered");
        }
    }

    /// All of the body so far, once this text is in it.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        while !self.body.contains(text) {
            assert!(self.more().await, "the stream ended without {text:?}: {:?}", self.body);
        }
        self.body.clone()
    }

    /// The whole body, once it has ended in order.
    pub(crate) async fn end(&mut self) -> String {
        while !self.ended {
            assert!(self.more().await, "the stream was cut: {:?}", self.body);
        }
        self.body.clone()
    }

    /// The messages of the body so far.
    pub(crate) fn messages(&self) -> Vec<serde_json::Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// The id of the last event so far.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.body.lines().rev().find_map(|line| line.strip_prefix("id: "))
    }

    /// Reads once. False at the end of the connection.
    async fn more(&mut self) -> bool {
        let reading = async { self.socket.read_buf(&mut self.raw).await.ok().filter(|read| *read > 0) };
        let read = in_time("more of an answer of the gate", reading).await.is_some();
        self.take();
        read
    }

    /// Takes the head and whole chunks out of what came.
    fn take(&mut self) {
        if self.head.is_none() {
            let Some(end) = find(&self.raw, b"\r\n\r\n") else { return };
            let head = self.raw.split_to(end + 4);
            self.head = Some(String::from_utf8_lossy(&head).to_ascii_lowercase());
        }
        let head = self.head.as_deref().unwrap_or_default();
        if !head.contains("transfer-encoding: chunked") {
            self.body.push_str(&String::from_utf8_lossy(&self.raw.split()));
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
            self.ended = length.and_then(|length| length.parse().ok()) == Some(self.body.len());
            return;
        }
        while let Some(end) = find(&self.raw, b"\r\n") {
            let size = usize::from_str_radix(&String::from_utf8_lossy(&self.raw[..end]), 16)
                .expect("a chunk's size");
            if self.raw.len() < end + 2 + size + 2 {
                return;
            }
            self.body.push_str(&String::from_utf8_lossy(&self.raw[end + 2..end + 2 + size]));
            drop(self.raw.split_to(end + 2 + size + 2));
            self.ended |= size == 0;
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
