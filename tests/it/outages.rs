//! What is down, or shows the wrong face: upstream, store, TLS. Nothing that did not run counts as run.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::json;
use tokio::net::TcpListener;

use crate::harness::answer::Answer;
use crate::harness::cable::Cable;
use crate::harness::client::{Ask, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::tls::Authority;
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, on_every_store, postgres};

fn refund(gate: &Gate, era: Era, key: &str) -> Ask {
    gate.client(era).tool("refund_order", &json!({ "order_id": "ord_9f2" })).key(key)
}

fn check_refused(reply: &Reply, code: &str, executed: &str, retry: &str) {
    let refusal = reply.refusal();
    let told = (&refusal["code"], &refusal["executed"], &refusal["retry"]);
    assert_eq!(told, (&json!(code), &json!(executed), &json!(retry)), "{}", reply.json());
}

/// An address where nobody listens, kept by nobody.
async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    listener.local_addr().expect("a bound socket has an address")
}

#[tokio::test]
async fn a_call_to_an_upstream_that_is_down_was_not_run_and_its_key_works_later() {
    on_every_store(async |home| {
        let address = nobody().await;
        let gate = Gate::start(Setup::new(home, &format!("http://{address}"))).await;
        for era in Era::ALL {
            let reply = refund(&gate, era, "k1").send().await;
            check_refused(&reply, "upstream_unreachable", "no", "same_key");
            assert_eq!(gate.claim("k1").await["status"], "failed");
        }
        let upstream = Upstream::start_at(address).await;
        assert_eq!(refund(&gate, Era::Modern, "k1").send().await.met(), "first");
        assert_eq!(refund(&gate, Era::Modern, "k1").send().await.met(), "replay");
        assert_eq!(upstream.calls("refund_order").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_upstream_whose_name_nobody_knows_is_unreachable() {
    let gate = Gate::start(Setup::new(Home::Sqlite, "http://no-such-host.invalid:9")).await;
    let reply = refund(&gate, Era::Modern, "k1").send().await;
    check_refused(&reply, "upstream_unreachable", "no", "same_key");
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_the_configuration_names_it() {
    let authority = Authority::new();
    let upstream = Upstream::start_tls(authority.acceptor.clone()).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &authority.pem).expect("the authority's certificate");
    let path = file.path().to_str().expect("a plain name");
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("upstream.ca_file", path);
    let gate = Gate::start(setup).await;
    assert_eq!(refund(&gate, Era::Modern, "k1").send().await.met(), "first");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn an_upstream_with_a_strangers_certificate_hears_nothing() {
    let upstream = Upstream::start_tls(Authority::new().acceptor).await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let reply = refund(&gate, Era::Modern, "k1").send().await;
    check_refused(&reply, "upstream_unreachable", "no", "same_key");
    assert!(upstream.received().is_empty());
}

/// A gate whose Postgres hangs on a cable.
pub(crate) async fn gate_on_a_cable(upstream: &Upstream) -> (Gate, Cable) {
    on_a_cable(upstream, |setup| setup).await
}

/// The same, set up otherwise.
pub(crate) async fn on_a_cable(upstream: &Upstream, change: impl FnOnce(Setup) -> Setup) -> (Gate, Cable) {
    let url = postgres::database().await;
    let server = postgres::address();
    let cable = Cable::to(server).await;
    let url = url.replace(&server.to_string(), &cable.address().to_string());
    let setup = change(Setup::new(Home::Postgres, &upstream.url()));
    (Gate::start_on(setup, Some(url)).await, cable)
}

#[tokio::test]
async fn without_its_store_the_gate_forwards_no_mutation() {
    let upstream = Upstream::start().await;
    let (gate, mut cable) = gate_on_a_cable(&upstream).await;
    assert_eq!(refund(&gate, Era::Modern, "before").send().await.met(), "first");
    cable.cut().await;
    for era in Era::ALL {
        let reply = refund(&gate, era, "during").send().await;
        check_refused(&reply, "store_unavailable", "no", "same_key");
        let replayed = refund(&gate, era, "before").send().await;
        check_refused(&replayed, "store_unavailable", "no", "same_key");
        let denied = gate.client(era).tool("run_sql", &json!({})).send().await;
        check_refused(&denied, "operation_not_allowed", "no", "no");
    }
    assert_eq!(upstream.calls("refund_order").len(), 1, "only the call before the cut");
    for (tool, reason) in [("refund_order", "store_unavailable"), ("run_sql", "denied_by_policy")] {
        let series = format!(r#"oncegate_calls_total{{tool="{tool}",decision="denied",reason="{reason}"}}"#);
        assert!(gate.count(&series).await >= 2, "{series}: whoever watches hears of it at once");
    }
    cable.mend().await;
    let met = eventually("the store to be back", async || {
        let met = refund(&gate, Era::Modern, "during").send().await.met();
        (met != "store_unavailable").then_some(met)
    })
    .await;
    assert_eq!(met, "first");
    assert_eq!(refund(&gate, Era::Modern, "before").send().await.met(), "replay");
    assert_eq!(upstream.calls("refund_order").len(), 2);
    for (reason, count) in [("store_unavailable", 4), ("denied_by_policy", 2)] {
        eventually("the rows of what was refused meanwhile", async || {
            let rows = gate.audit(0).await;
            let told = rows.iter().filter(|row| row["reason"] == reason && row["executed"] == "no").count();
            (told >= count).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn nobody_hears_that_a_call_runs_whose_answer_others_give_already() {
    let upstream = Upstream::start().await;
    let (gate, cable) = gate_on_a_cable(&upstream).await;
    let mut other = gate.another().await;
    let direct =
        gate.setting("store.url").replace(&cable.address().to_string(), &postgres::address().to_string());
    other.stop().await;
    other.set("store.url", &direct);
    other.restart().await;
    let hold = upstream.hold("refund_order");
    let first = refund(&gate, Era::Modern, "k").open().await;
    upstream.called("refund_order", 1).await;
    assert_eq!(refund(&gate, Era::Modern, "k").send().await.met(), "request_in_flight");
    // The settlement arrives, and its gate does not hear that it did.
    cable.deafen();
    hold.release();
    eventually("the other gate to give the answer", async || {
        (refund(&other, Era::Modern, "k").send().await.met() == "replay").then_some(())
    })
    .await;
    let met = refund(&gate, Era::Modern, "k").send().await.met();
    assert_eq!(met, "store_unavailable");
    drop(first);
}

#[tokio::test]
async fn what_is_done_to_a_task_meanwhile_is_written_down_once_the_store_is_back() {
    let upstream = Upstream::start().await;
    let (gate, mut cable) = gate_on_a_cable(&upstream).await;
    let task = json!({ "task": { "taskId": "t-1", "status": "working" } });
    upstream.script("refund_order", [Answer::result(task.clone())]);
    let made = refund(&gate, Era::Legacy, "k1").send().await;
    let id = made.result()["task"]["taskId"].clone();
    cable.cut().await;
    upstream.script("tasks/cancel", [Answer::result(task["task"].clone())]);
    let reply = gate.client(Era::Legacy).rpc("tasks/cancel", &json!({ "taskId": id })).send().await;
    assert_eq!((reply.met(), &reply.result()["taskId"]), ("first".to_owned(), &id));
    cable.mend().await;
    let rows = gate.audit(2).await;
    assert_eq!((&rows[1]["tool"], &rows[1]["executed"]), (&json!("tasks/cancel"), &json!("yes")), "{rows:?}");
}

#[tokio::test]
async fn an_answer_that_could_not_be_stored_is_given_and_stored_later() {
    let upstream = Upstream::start().await;
    let (gate, mut cable) = gate_on_a_cable(&upstream).await;
    let hold = upstream.hold("refund_order");
    // A client that takes no stream gets its answer in one piece, however long it takes.
    let ask = refund(&gate, Era::Modern, "k1").without("Accept").header("Accept", "application/json");
    let open = ask.open().await;
    upstream.called("refund_order", 1).await;
    cable.cut().await;
    hold.release();
    let reply = open.reply().await;
    assert_eq!(reply.met(), "first");
    assert_eq!(reply.result()["structuredContent"], json!({ "held": true }));
    assert_eq!(reply.result()["_meta"]["oncegate/not_recorded"], true, "{}", reply.json());
    assert_eq!(reply.http.header("oncegate-not-recorded"), Some("true"));
    // A gate that is stopped now has said what it knew.
    let attempt = gate_says_of(&gate, "A settlement waits for the store.", &["came_to", "completed"]);
    cable.mend().await;
    eventually("the answer to be stored", async || {
        (gate.claim("k1").await["status"] == "completed").then_some(())
    })
    .await;
    assert!(attempt.contains(gate.claim("k1").await["attempt_id"].as_str().expect("an id")), "{attempt}");
    assert_eq!(refund(&gate, Era::Modern, "k1").send().await.met(), "replay");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

/// The first line of the log that says this; it must name the call and say these words too.
fn gate_says_of(gate: &Gate, says: &str, words: &[&str]) -> String {
    let logged = gate.logged();
    let line = logged.lines().find(|line| line.contains(says)).unwrap_or_else(|| panic!("{says}:\n{logged}"));
    let words = ["acme", "refund_order", "k1", "attempt"].iter().chain(words);
    words.for_each(|word| assert!(line.contains(word), "{word}: {line}"));
    line.to_owned()
}

#[tokio::test]
async fn the_log_leads_to_a_call_whose_outcome_became_unknown() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        upstream.script("refund_order", [Answer::reset()]);
        for _ in 0..2 {
            let reply = refund(&gate, Era::Modern, "k1").send().await;
            check_refused(&reply, "outcome_unknown", "maybe", "no");
        }
        let line = gate_says_of(&gate, "A mutation's outcome is unknown.", &["WARN"]);
        assert!(line.contains(gate.claim("k1").await["attempt_id"].as_str().expect("an id")), "{line}");
        assert_eq!(gate.logged().matches("A mutation's outcome is unknown.").count(), 1);
    })
    .await;
}
