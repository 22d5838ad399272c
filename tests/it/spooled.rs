//! What a gate keeps while its store is away, and what becomes of it: nothing is lost, nothing is written twice, nothing
//! runs twice.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::cable::Cable;
use crate::harness::client::{Ask, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, in_time, on_every_store, postgres};
use crate::store::samples::event;

/// How much waits in the spool, as `/metrics` has it.
const GAUGE: &str = "oncegate_audit_spooled";

/// A gate whose store can be taken away.
struct Scene {
    gate: Gate,
    upstream: Upstream,
    away: Away,
    folder: TempDir,
}

/// How.
enum Away {
    /// Somebody else keeps the file locked.
    Lock(PathBuf, Option<Connection>),
    /// The way to the server is cut.
    Cable(Cable),
}

impl Scene {
    async fn new(home: Home, change: impl FnOnce(Setup) -> Setup) -> Self {
        let upstream = Upstream::start().await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = folder.path().join("spool").display().to_string();
        let setup = change(Setup::new(home, &upstream.url()).set("audit.spool_file", spool));
        let (url, away) = match home {
            Home::Sqlite => {
                let path = folder.path().join("oncegate.db");
                (format!("sqlite:{}", path.display()), Away::Lock(path, None))
            }
            Home::Postgres => {
                let cable = Cable::to(postgres::address()).await;
                let url = postgres::database().await;
                let url = url.replace(&postgres::address().to_string(), &cable.address().to_string());
                (url, Away::Cable(cable))
            }
        };
        let gate = Gate::start_on(setup, Some(url)).await;
        Self { gate, upstream, away, folder }
    }

    /// Takes the store away.
    async fn begin(&mut self) {
        match &mut self.away {
            Away::Lock(path, lock) => {
                let connection = Connection::open(path).expect("the same file");
                connection.busy_timeout(crate::harness::PATIENCE).expect("a timeout");
                connection.execute_batch("BEGIN IMMEDIATE").expect("the lock");
                *lock = Some(connection);
            }
            Away::Cable(cable) => cable.cut().await,
        }
    }

    /// Takes it away, and has the gate find out.
    async fn begin_and_be_noticed(&mut self) {
        self.begin().await;
        let reply = self.refund("the-first-to-find-out").send().await;
        check_refused(&reply, "store_unavailable");
    }

    /// Gives it back.
    async fn end(&mut self) {
        match &mut self.away {
            Away::Lock(_, lock) => drop(lock.take().expect("it was away")),
            Away::Cable(cable) => cable.mend().await,
        }
    }

    /// Waits until all that waited is stored, though nobody calls.
    async fn drained(&self) {
        eventually("the spool to be empty", async || (self.gate.count(GAUGE).await == 0).then_some(())).await;
        assert_eq!(self.spool().len(), 0, "the file is made empty");
    }

    fn spool(&self) -> Vec<u8> {
        fs::read(self.folder.path().join("spool")).expect("the spool")
    }

    fn refund(&self, key: &str) -> Ask {
        let client = self.gate.client(Era::Modern);
        client.tool("refund_order", &json!({ "order_id": "ord_9f2" })).key(key)
    }

    fn invoice(&self, invoice: &str) -> Ask {
        self.gate.client(Era::Modern).tool("get_invoice", &json!({ "invoice": invoice }))
    }

    /// The rows of a tool with this decision, oldest first, once there are so many.
    async fn rows(&self, count: usize, tool: &str, decision: &str) -> Vec<Value> {
        self.rows_of(count, tool, |row| row["decision"] == decision).await
    }

    async fn rows_of(&self, count: usize, tool: &str, of: impl Fn(&Value) -> bool) -> Vec<Value> {
        let of = |row: &Value| row["tool"] == tool && of(row);
        eventually(&format!("{count} rows of {tool}"), async || {
            let rows: Vec<_> = self.gate.audit(0).await.into_iter().filter(|row| of(row)).collect();
            (rows.len() >= count).then_some(rows)
        })
        .await
    }
}

fn check_refused(reply: &Reply, code: &str) {
    let refusal = reply.refusal();
    assert_eq!((&refusal["code"], &refusal["executed"]), (&json!(code), &json!("no")), "{}", reply.json());
}

fn spooling(setup: Setup) -> Setup {
    setup.set("audit.when_store_down", "spool")
}

#[tokio::test]
async fn an_answer_that_could_not_be_stored_outlives_the_process_and_is_replayed() {
    on_every_store(async |home| {
        let mut scene = Scene::new(home, |setup| setup).await;
        let hold = scene.upstream.hold("refund_order");
        let open = scene.refund("k1").without("Accept").header("Accept", "application/json").open().await;
        scene.upstream.called("refund_order", 1).await;
        scene.begin().await;
        hold.release();
        let reply = open.reply().await;
        assert_eq!(reply.met(), "first");
        assert_eq!(reply.result()["_meta"]["oncegate/not_recorded"], true, "{}", reply.json());
        assert_eq!(scene.gate.count(GAUGE).await, 1, "it was on the disk before the caller had it");
        scene.gate.kill();
        scene.end().await;
        scene.gate.restart().await;
        scene.drained().await;
        assert_eq!(scene.gate.claim("k1").await["status"], "completed");
        let again = scene.refund("k1").send().await;
        assert_eq!(again.met(), "replay");
        assert_eq!(again.result()["structuredContent"], reply.result()["structuredContent"]);
        assert_eq!(scene.upstream.calls("refund_order").len(), 1);
        let rows = scene.rows(1, "refund_order", "allowed").await;
        assert_eq!((rows.len(), &rows[0]["executed"]), (1, &json!("yes")), "{rows:?}");
        assert!(scene.gate.logged().contains("The spool holds what an earlier process left."));
    })
    .await;
}

#[tokio::test]
async fn a_settlement_that_was_stored_and_not_yet_forgotten_is_not_stored_twice() {
    on_every_store(async |home| {
        let mut scene = Scene::new(home, |setup| setup).await;
        let hold = scene.upstream.hold("refund_order");
        let open = scene.refund("k1").open().await;
        scene.upstream.called("refund_order", 1).await;
        scene.begin().await;
        hold.release();
        open.reply().await;
        let waiting = scene.spool();
        scene.end().await;
        scene.drained().await;
        let before = (scene.gate.claim("k1").await, scene.rows(1, "refund_order", "allowed").await);
        // As if it had died after the store's commit, and before the file was made empty.
        scene.gate.kill();
        fs::write(scene.folder.path().join("spool"), waiting).expect("the spool");
        scene.gate.restart().await;
        scene.drained().await;
        let after = (scene.gate.claim("k1").await, scene.rows(1, "refund_order", "allowed").await);
        assert_eq!(after, before);
    })
    .await;
}

#[tokio::test]
async fn reads_are_refused_at_once_while_the_store_is_known_to_be_away() {
    on_every_store(async |home| {
        let mut scene = Scene::new(home, |setup| setup).await;
        assert_eq!(scene.invoice("i0").send().await.met(), "first");
        scene.begin_and_be_noticed().await;
        // If each waited for the store, this would take minutes.
        in_time("a hundred refusals", async {
            for n in 0..50 {
                check_refused(&scene.invoice(&format!("i{n}")).send().await, "store_unavailable");
                check_refused(&scene.refund(&format!("k{n}")).send().await, "store_unavailable");
            }
        })
        .await;
        assert_eq!(scene.upstream.calls("get_invoice").len(), 1, "what is refused is not run");
        assert_eq!(scene.upstream.calls("refund_order").len(), 0);
        scene.end().await;
        scene.drained().await;
        assert_eq!(scene.invoice("later").send().await.met(), "first");
        assert_eq!(scene.refund("later").send().await.met(), "first");
        for (tool, count) in [("get_invoice", 50), ("refund_order", 51)] {
            let rows = scene.rows(count, tool, "denied").await;
            assert!(rows.iter().all(|row| row["reason"] == "store_unavailable"), "{rows:?}");
            assert_eq!(rows.len(), count);
        }
    })
    .await;
}

#[tokio::test]
async fn reads_are_served_where_that_is_wanted_and_their_rows_outlive_the_process() {
    on_every_store(async |home| {
        let mut scene = Scene::new(home, spooling).await;
        scene.begin_and_be_noticed().await;
        for n in 0..20 {
            assert_eq!(scene.invoice(&format!("i{n}")).send().await.met(), "first");
            let denied = scene.gate.client(Era::Modern).tool("run_sql", &json!({ "n": n })).send().await;
            check_refused(&denied, "operation_not_allowed");
        }
        check_refused(&scene.refund("k1").send().await, "store_unavailable");
        assert_eq!(scene.upstream.calls("refund_order").len(), 0, "mutations never run without the store");
        // Twenty of each, and those of the mutations that were refused: they were synced before their answers.
        assert_eq!(scene.gate.count(GAUGE).await, 42);
        scene.gate.kill();
        scene.end().await;
        scene.gate.restart().await;
        scene.drained().await;
        let args = |rows: Vec<Value>| rows.into_iter().map(|mut row| row["args"].take()).collect::<Vec<_>>();
        let invoices: Vec<_> = (0..20).map(|n| json!({ "invoice": format!("i{n}") })).collect();
        assert_eq!(
            args(scene.rows(20, "get_invoice", "allowed").await),
            invoices,
            "each once, in their order"
        );
        let queries: Vec<_> = (0..20).map(|n| json!({ "n": n })).collect();
        assert_eq!(args(scene.rows(20, "run_sql", "denied").await), queries, "each once, in their order");
        // The first to find out may have sent its claim already: then it is let go and given back, not denied.
        let refunds = scene.rows_of(2, "refund_order", |row| row["reason"] == "store_unavailable").await;
        assert!(refunds.len() == 2 && refunds.iter().all(|row| row["executed"] == "no"), "{refunds:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_was_answered_has_its_row_though_its_gate_died_with_many_in_hand() {
    let mut scene = Scene::new(Home::Postgres, spooling).await;
    scene.begin_and_be_noticed().await;
    let answered = Arc::new(Mutex::new(Vec::new()));
    let readers: Vec<_> = (0..20)
        .map(|reader| {
            let (client, answered) = (scene.gate.client(Era::Modern), Arc::clone(&answered));
            tokio::spawn(async move {
                for n in 0.. {
                    let invoice = format!("r{reader}-{n}");
                    let ask = client.tool("get_invoice", &json!({ "invoice": invoice }));
                    // Without an answer the gate is gone.
                    let Some(reply) = ask.try_send().await else { return };
                    assert_eq!(reply.met(), "first");
                    answered.lock().expect("nobody panicked").push(invoice);
                }
            })
        })
        .collect();
    let some = async || (answered.lock().expect("nobody panicked").len() > 200).then_some(());
    eventually("two hundred answers", some).await;
    scene.gate.kill();
    for reader in readers {
        in_time("a reader", reader).await.expect("it does not panic");
    }
    scene.end().await;
    scene.gate.restart().await;
    scene.drained().await;
    let answered = std::mem::take(&mut *answered.lock().expect("nobody panicked"));
    let rows = scene.rows(answered.len(), "get_invoice", "allowed").await;
    let mut told: Vec<_> =
        rows.iter().map(|row| row["args"]["invoice"].as_str().unwrap_or_default()).collect();
    told.sort_unstable();
    let all = told.len();
    told.dedup();
    assert_eq!(told.len(), all, "no row twice");
    for invoice in answered {
        assert!(told.binary_search(&invoice.as_str()).is_ok(), "{invoice} was answered, and has no row");
    }
}

#[tokio::test]
async fn what_the_store_will_not_take_stays_and_keeps_nobody_else_waiting() {
    let mut scene = Scene::new(Home::Postgres, |setup| setup).await;
    assert_eq!(scene.gate.stop().await, Some(0));
    let spool = crate::spool::open(&scene.folder.path().join("spool")).await;
    // No index entry can hold this name, and no page can compress it.
    let endless: String = (0..500).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
    spool.keep_row(event("before"), None).await.expect("there is room");
    spool.keep_settlement(crate::spool::settlement(&endless)).await.expect("there is room");
    spool.keep_settlement(crate::spool::settlement("after")).await.expect("there is room");
    spool.keep_row(event("after"), None).await.expect("there is room");
    drop(spool);
    scene.gate.restart().await;
    eventually("the others to be stored", async || (scene.gate.count(GAUGE).await == 1).then_some(())).await;
    // Two rows of no claim, and the one of the settlement that was stored.
    assert_eq!(scene.gate.audit(3).await.len(), 3);
    assert_eq!(scene.gate.claim("after").await["status"], "failed");
    assert!(scene.gate.logged().contains("A settlement goes on waiting in the spool."));
    assert_eq!(scene.refund("k1").send().await.met(), "first");
    assert_eq!(scene.gate.stop().await, Some(0));
    assert!(scene.gate.logged().contains("wait in the spool for the next start"));
}

#[tokio::test]
async fn a_full_spool_refuses_reads_before_they_run() {
    let mut scene =
        Scene::new(Home::Postgres, |setup| spooling(setup).set("audit.spool_limit", "1MiB")).await;
    scene.begin_and_be_noticed().await;
    let large: serde_json::Map<_, _> =
        (0..50).map(|n| (format!("line{n}"), json!("x".repeat(120)))).collect();
    let mut served = 0;
    let refused = loop {
        let reply = scene.gate.client(Era::Modern).tool("get_invoice", &json!(large)).send().await;
        if reply.met() != "first" {
            break reply;
        }
        served += 1;
        assert!(served < 1000, "the limit is not held");
    };
    check_refused(&refused, "store_unavailable");
    assert!(served > 20, "{served}");
    assert_eq!(scene.upstream.calls("get_invoice").len(), served);
    assert!(scene.gate.logged().contains("is full: audit.spool_limit is 1MiB"), "the log says why");
    assert!(scene.spool().len() <= 1 << 20);
    scene.end().await;
    scene.drained().await;
    assert_eq!(scene.rows(served, "get_invoice", "allowed").await.len(), served);
    assert_eq!(scene.invoice("small").send().await.met(), "first");
}

#[tokio::test]
async fn a_claim_that_was_not_confirmed_is_given_back_after_a_restart() {
    let mut scene = Scene::new(Home::Postgres, |setup| setup).await;
    let direct = match &scene.away {
        Away::Cable(cable) => scene
            .gate
            .setting("store.url")
            .replace(&cable.address().to_string(), &postgres::address().to_string()),
        Away::Lock(..) => panic!("it is on Postgres"),
    };
    // The statement that claims waits for this lock; its answer gets lost on the cut cable, and it is committed.
    let (client, connection) =
        tokio_postgres::connect(&direct, tokio_postgres::NoTls).await.expect("the server");
    tokio::spawn(connection);
    client.batch_execute("BEGIN; LOCK TABLE oncegate.idempotency_claims").await.expect("a lock");
    let open = scene.refund("k1").open().await;
    let (beside, connection) =
        tokio_postgres::connect(&direct, tokio_postgres::NoTls).await.expect("the server");
    tokio::spawn(connection);
    let question = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                    AND query LIKE '%INSERT%'";
    eventually("the claim to wait for the lock", async || {
        (!beside.query(question, &[]).await.expect("the server answers").is_empty()).then_some(())
    })
    .await;
    scene.begin().await;
    client.batch_execute("COMMIT").await.expect("the lock is given back");
    check_refused(&open.reply().await, "store_unavailable");
    eventually("its end to be kept", async || (scene.gate.count(GAUGE).await == 1).then_some(())).await;
    scene.gate.kill();
    scene.end().await;
    scene.gate.restart().await;
    scene.drained().await;
    assert_eq!(scene.gate.claim("k1").await["status"], "failed");
    assert_eq!(scene.upstream.calls("refund_order").len(), 0);
    assert_eq!(scene.refund("k1").send().await.met(), "first");
}

#[tokio::test]
async fn without_a_file_the_gate_says_at_its_start_what_it_could_lose() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    assert!(gate.logged().contains("audit.spool_file is not set"), "{}", gate.logged());
    let scene = Scene::new(Home::Sqlite, |setup| setup).await;
    assert!(!scene.gate.logged().contains("audit.spool_file"), "{}", scene.gate.logged());
}

#[tokio::test]
async fn a_spool_that_another_gate_has_or_that_has_no_folder_stops_the_start() {
    let scene = Scene::new(Home::Postgres, |setup| setup).await;
    let second = scene.gate.run(&["serve"]).await;
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(78), "{told}");
    assert!(told.contains("another process has the spool"), "{told}");
    let lost = scene.folder.path().join("no/such/spool").display().to_string();
    let third = scene.gate.run(&["serve", "--audit-spool-file", &lost]).await;
    let told = String::from_utf8_lossy(&third.stderr).into_owned();
    assert_eq!(third.status.code(), Some(78), "{told}");
    assert!(told.contains("audit.spool_file cannot be used") && told.contains(&lost), "{told}");
}
