//! The readers beside PHP's own: whatever PHP finds in a body that the gate accepts, the gate has found.
//!
//! Promises: bodies and queries are put together by chance, from what parsers stumble over; every one that is accepted is
//! given to a running PHP, and every field that it reads must be among the values that the gate knows under that name.

use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fastrand::Rng;
use oncegate::http::overrides::refuse_override;
use oncegate::http::query::Query;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{FORM, headers, read, target};
use crate::harness::gate::free_port;
use crate::harness::http::Reader;
use crate::harness::{eventually, in_time};

/// Tells every field that PHP reads, by the name that it begins with.
const SCRIPT: &str = r"<?php
$told = ['fields' => [], 'files' => array_map(fn ($name) => base64_encode((string) $name), array_keys($_FILES))];
foreach ([$_GET, $_POST] as $fields) {
    foreach ($fields as $name => $value) {
        $leaves = [$value];
        array_walk_recursive($leaves, function ($leaf) use ($name, &$told) {
            $told['fields'][] = [base64_encode((string) $name), base64_encode($leaf)];
        });
    }
}
echo json_encode($told);
";

const BOUNDARY: &str = "multipart/form-data; boundary=b";

/// What the pieces of a form or a query are.
const PIECES: [&str; 27] = [
    "a",
    "b",
    "_method",
    "method",
    "tenant_id",
    "_",
    "=",
    "=",
    "&",
    "&",
    ";",
    "+",
    ".",
    "[",
    "]",
    "[]",
    "?",
    "%20",
    "%00",
    "%5B",
    "%5D",
    "%2E",
    "%26",
    "%3D",
    "%C3%A9",
    "%FF",
    "%09",
];

/// What is put into a multipart body.
const BREAKS: [&str; 26] = [
    "\r",
    "\n",
    "\r\n",
    "\r\n\r\n",
    "--b",
    "--",
    "\r\n--b",
    "\n--b\r\n",
    "\r\n--b\r\n",
    ";",
    " ",
    "\t",
    "\"",
    "'",
    "\\",
    "=",
    ":",
    "%",
    "[",
    ".",
    "\0",
    "x",
    "; name=\"_method\"",
    "; filename=\"x\"",
    "\r\nContent-Type: text/plain",
    "\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nx",
];

struct Php {
    process: Child,
    address: std::net::SocketAddr,
    _folder: TempDir,
    _port: std::fs::File,
}

impl Php {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("told.php"), SCRIPT).expect("the script");
        let (address, port) = free_port();
        let mut command = Command::new("php");
        command.args(["-d", "display_errors=0", "-S", &address.to_string(), "told.php"]);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("php (`tests/parts` installs it)");
        eventually("php to listen", async || TcpStream::connect(address).await.ok()).await;
        Self { process, address, _folder: folder, _port: port }
    }

    /// The fields that PHP reads, and the names of files.
    async fn reads(&self, line: &str, media: &str, body: &[u8]) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
        let mut socket = TcpStream::connect(self.address).await.expect("php listens");
        let head = format!(
            "{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(&[head.as_bytes(), body].concat()).await.expect("php reads");
        let answer = in_time("php's answer", Reader::new().next(&mut socket)).await.expect("an answer");
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"));
        let plain = |text: &Value| BASE64_STANDARD.decode(text.as_str().expect("a text")).expect("base64");
        let name = |text: &Value| String::from_utf8_lossy(&plain(text)).into_owned();
        let fields = told["fields"].as_array().expect("fields").iter();
        let fields = fields.map(|field| (name(&field[0]), plain(&field[1]))).collect();
        (fields, told["files"].as_array().expect("files").iter().map(name).collect())
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        let _gone_already = self.process.kill().is_err() || self.process.wait().is_err();
    }
}

/// Whether a value that PHP reads is among those that the gate knows.
#[track_caller]
fn check(fields: &[(String, Vec<u8>)], values: impl Fn(&str) -> Vec<Option<String>>, sent: &[u8]) {
    for (name, value) in fields {
        let sent = String::from_utf8_lossy(sent);
        assert_ne!(name, "_method", "{sent:?}");
        let value = String::from_utf8(value.clone()).ok();
        assert!(values(name).contains(&value), "{sent:?}: PHP reads {name:?} as {value:?}");
    }
}

fn pieces(random: &mut Rng) -> String {
    let count = random.usize(1..14);
    std::iter::repeat_with(|| *random.choice(&PIECES[..]).expect("there are some")).take(count).collect()
}

fn multipart(random: &mut Rng) -> Vec<u8> {
    let mut body = String::new();
    for _ in 0..random.usize(1..4) {
        let name = random.choice(["a", "b", "c d", "e[f]", "g[]", "h.i", "tenant_id"]).expect("a name");
        let file = random.choice(["", "", "; filename=\"x.png\"", "; filename=\"\""]).expect("a file");
        let content = random.choice(["", "1", "two\r\nlines", "--", "\u{e9}"]).expect("a content");
        let part =
            ["--b\r\nContent-Disposition: form-data; name=\"", name, "\"", file, "\r\n\r\n", content, "\r\n"];
        body.extend(part);
    }
    body += "--b--\r\n";
    let mut body = body.into_bytes();
    for _ in 0..random.usize(0..3) {
        let at = random.usize(..=body.len());
        let until = (at + random.choice([0, 0, 1, 2]).expect("a length")).min(body.len());
        let broken = random.choice(BREAKS).expect("a break").bytes();
        body.splice(at..until, broken);
    }
    body
}

#[tokio::test]
async fn whatever_php_reads_in_an_accepted_multipart_body_the_gate_has_read() {
    let php = Php::start().await;
    let mut random = Rng::with_seed(20);
    let mut accepted = 0;
    for _ in 0..3000 {
        let body = multipart(&mut random);
        let Ok(content) = read(BOUNDARY, &body) else { continue };
        accepted += 1;
        let (fields, files) = php.reads("POST /", BOUNDARY, &body).await;
        check(&fields, |name| content.values(name), &body);
        for file in files {
            assert!(!content.values(&file).is_empty(), "{:?}: {file}", String::from_utf8_lossy(&body));
        }
    }
    assert!(accepted > 500, "only {accepted} bodies were accepted");
}

#[tokio::test]
async fn whatever_php_reads_in_an_accepted_form_or_query_the_gate_has_read() {
    let php = Php::start().await;
    let mut random = Rng::with_seed(21);
    let mut accepted = 0;
    for _ in 0..1500 {
        let text = pieces(&mut random);
        if let Ok(content) = read(FORM, &text) {
            accepted += 1;
            let (fields, _) = php.reads("POST /", FORM, text.as_bytes()).await;
            check(&fields, |name| content.values(name), text.as_bytes());
        }
        let asked = target(&format!("/?{text}"));
        if refuse_override(&asked, &headers(&[])).is_ok() {
            accepted += 1;
            let (fields, _) = php.reads(&format!("GET {asked}"), "text/plain", b"").await;
            check(&fields, |name| Query::of(&asked).values(name), text.as_bytes());
        }
    }
    assert!(accepted > 500, "only {accepted} were accepted");
}
