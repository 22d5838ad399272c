//! `oncegate audit --follow`: every row once, whatever comes late, and an end that is no failure.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use oncegate::domain::audit::{Decision, Facts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio_postgres::NoTls;

use super::house::{House, event, facts};
use crate::harness::cable::Cable;
use crate::harness::setup::Home;
use crate::harness::{eventually, postgres};

/// A command that goes on, and what it has said.
struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

fn gathered(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Running {
    fn start(house: &House, more: &[&str]) -> Self {
        let arguments = [&["audit", "--follow"], more].concat();
        let mut command = house.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, errors) =
            (gathered(child.stdout.take().unwrap()), gathered(child.stderr.take().unwrap()));
        Self { child, lines, errors }
    }

    /// The keys of the next rows, so many.
    async fn keys(&self, count: usize) -> Vec<String> {
        let mut keys = Vec::new();
        eventually(&format!("{count} rows, not {keys:?}"), async || {
            keys.extend(self.lines.try_iter().map(|line| {
                let row: Value = serde_json::from_str(&line).unwrap();
                row["idempotency_key"].as_str().unwrap().to_owned()
            }));
            (keys.len() >= count).then_some(())
        })
        .await;
        keys
    }

    async fn says(&self, text: &str) {
        eventually(text, async || self.errors.try_iter().any(|line| line.contains(text)).then_some(())).await;
    }

    async fn ends(&mut self) -> ExitStatus {
        eventually("the command to end", async || self.child.try_wait().unwrap()).await
    }

    async fn interrupted(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.ends().await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone_already = self.child.kill().is_err() || self.child.wait().is_err();
    }
}

#[tokio::test]
async fn rows_come_as_they_are_written_after_the_newest_that_were_there() {
    for home in Home::ALL {
        let house = House::on(home).await;
        let store = house.store().await;
        for key in ["old1", "old2", "old3"] {
            store.append(event(facts("refund_order", key), Decision::Allowed, None)).await.unwrap();
        }
        let other = event(facts("send_mail", "mail"), Decision::Allowed, None);
        store.append(other.clone()).await.unwrap();
        let running = Running::start(&house, &["--json", "--limit", "2", "--tool", "refund_order"]);
        assert_eq!(running.keys(2).await, ["old2", "old3"], "{home:?}");
        let mut expected = Vec::new();
        for n in 0..30 {
            let key = format!("new{n}");
            store.append(event(facts("refund_order", &key), Decision::Allowed, None)).await.unwrap();
            expected.push(key);
        }
        assert_eq!(running.keys(30).await, expected, "{home:?}");
        assert_eq!(running.interrupted().await.code(), Some(0), "Ctrl-C is how it ends");
        store.close().await;
    }
}

#[tokio::test]
async fn a_row_that_is_committed_late_comes_once_and_late() {
    let house = House::on(Home::Postgres).await;
    let store = house.store().await;
    let (mut client, connection) = tokio_postgres::connect(house.url(), NoTls).await.unwrap();
    let carried = tokio::spawn(connection);
    let late = client.transaction().await.unwrap();
    let insert = "INSERT INTO oncegate.audit_events (id, at, tenant_id, service, user_id, tool, decision, executed, idempotency_key)
        VALUES ($1, now(), 'acme', 'billing', 'u1', 'refund_order', 'allowed', 'yes', 'late')";
    late.execute(insert, &[&oncegate::store::event_id()]).await.unwrap();
    let running = Running::start(&house, &["--json"]);
    store.append(event(facts("refund_order", "first"), Decision::Allowed, None)).await.unwrap();
    assert_eq!(running.keys(1).await, ["first"]);
    // Its time is before that of a row which was shown long ago.
    let shown = std::time::Instant::now();
    let mut number = 0;
    while shown.elapsed() < std::time::Duration::from_secs(4) {
        number += 1;
        let key = format!("on{number}");
        store.append(event(facts("refund_order", &key), Decision::Allowed, None)).await.unwrap();
        assert_eq!(running.keys(1).await, [key]);
    }
    late.commit().await.unwrap();
    assert_eq!(running.keys(1).await, ["late"]);
    store.append(event(facts("refund_order", "last"), Decision::Allowed, None)).await.unwrap();
    assert_eq!(running.keys(1).await, ["last"], "nothing comes twice");
    drop((running, client));
    carried.await.unwrap().unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_store_that_goes_away_is_said_to_be_once_and_nothing_is_lost() {
    let mut house = House::on(Home::Postgres).await;
    let store = house.store().await;
    let mut cable = Cable::to(postgres::address()).await;
    house.keep_in(&house.url().replace(&postgres::address().to_string(), &cable.address().to_string()));
    let running = Running::start(&house, &["--json"]);
    store.append(event(facts("refund_order", "before"), Decision::Allowed, None)).await.unwrap();
    assert_eq!(running.keys(1).await, ["before"]);
    cable.cut().await;
    running.says("It is asked again until it answers.").await;
    store.append(event(facts("refund_order", "during"), Decision::Allowed, None)).await.unwrap();
    cable.mend().await;
    assert_eq!(running.keys(1).await, ["during"]);
    running.says("The store answers again").await;
    store.append(event(facts("refund_order", "after"), Decision::Allowed, None)).await.unwrap();
    assert_eq!(running.keys(1).await, ["after"]);
    let more: Vec<_> = running.errors.try_iter().collect();
    assert!(!more.iter().any(|line| line.contains("asked again")), "said once: {more:?}");
    store.close().await;
}

#[tokio::test]
async fn it_ends_well_when_its_reader_goes_though_no_row_comes() {
    let house = House::on(Home::Sqlite).await;
    let store = house.store().await;
    let long = Facts { session_id: Some("x".repeat(100)), ..facts("refund_order", "k1") };
    store.append(event(long, Decision::Allowed, None)).await.unwrap();
    let mut command = house.command(&["audit", "-f"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"AT");
    let status = eventually("the command to end", async || child.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(0));
    store.close().await;
}
