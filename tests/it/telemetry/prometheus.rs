//! Prometheus' own programs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// One of them.
pub(super) fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".parts/prometheus/usr/bin").join(name);
    assert!(path.is_file(), "{} is missing: run tests/parts", path.display());
    path
}

/// What promtool says to this on its standard input.
pub(super) fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(program("promtool"));
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("promtool");
    let mut stdin = running.stdin.take().expect("its standard input");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    running.wait_with_output().expect("its end")
}

/// Fails with what it said where it did not like something.
pub(super) fn pleased(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "promtool: {}{}", said[0], said[1]);
}
