//! What somebody tries who wants a call to run unseen, twice, or for another tenant; and what bad luck does alike.
//!
//! Promises: each attempt goes through the running gate; what the upstream received is the truth.

use serde_json::json;
use tokio_postgres::NoTls;

use crate::harness::answer::Answer;
use crate::harness::cable::Cable;
use crate::harness::client::{Ask, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;
use crate::harness::{eventually, postgres};

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    (upstream, gate)
}

fn refund(gate: &Gate, era: Era) -> Ask {
    gate.client(era).tool("refund_order", &json!({ "order_id": "ord_9f2" })).key("k1")
}

#[tokio::test]
async fn a_member_that_a_lenient_reader_takes_for_another_reaches_nobody() {
    let (upstream, gate) = started().await;
    let read = |gate: &Gate, era| gate.client(era).tool("get_invoice", &json!({ "id": "in_1" })).id("a-7");
    let hidden = json!({ "name": "refund_order", "arguments": {} });
    for era in Era::ALL {
        let asks = [
            read(&gate, era).with(|body| body["params"]["Name"] = json!("refund_order")),
            read(&gate, era).with(|body| body["params"]["ARGUMENTS"] = json!({ "id": "in_2" })),
            read(&gate, era).with(|body| body["params"]["name\0"] = json!("refund_order")),
            read(&gate, era).with(|body| body["Method"] = json!("tools/call")),
            read(&gate, era).with(|body| body["param\u{17f}"] = hidden.clone()),
            gate.client(era).rpc("ping", &json!({})).id("a-7").with(|body| body["METHOD"] = json!("tools/call")),
            gate.client(Era::Legacy).rpc("ping", &json!({})).with(|body| {
                *body = json!({ "jsonrpc": "2.0", "id": "a-7", "result": {}, "Method": "tools/call", "params": hidden });
            }),
        ];
        for ask in asks {
            let text = ask.text();
            let reply = ask.send().await;
            assert_eq!((reply.status(), reply.word().as_str()), (400, "-32600"), "{text}");
            assert_eq!(reply.json()["id"], "a-7", "{text}");
        }
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_key_header_that_is_no_text_leaves_neither_key_nor_tenant_in_a_read() {
    let (upstream, gate) = started().await;
    let arguments = json!({ "id": "in_1", "tenant_id": "globex", "idempotency_key": "k1" });
    let ask = gate.client(Era::Modern).tool("get_invoice", &arguments).header("Idempotency-Key", "\u{e9}");
    assert_eq!(ask.send().await.status(), 200);
    assert_eq!(upstream.calls("get_invoice")[0].json["params"]["arguments"], json!({ "id": "in_1" }));
}

#[tokio::test]
async fn a_tenant_argument_is_dropped_however_it_is_written() {
    let (upstream, gate) = started().await;
    let arguments = json!({ "order_id": "o", "Tenant_ID": "globex", "tenant_id": "globex", "TENANT_ID": 7 });
    let reply = gate.client(Era::Modern).tool("refund_order", &arguments).key("k1").send().await;
    assert_eq!(reply.met(), "first");
    assert_eq!(upstream.calls("refund_order")[0].json["params"]["arguments"], json!({ "order_id": "o" }));
}

#[tokio::test]
async fn no_header_passes_for_the_gates_own_or_leads_elsewhere() {
    let (upstream, gate) = started().await;
    let names = [
        "X~Oncegate~Tenant",
        "X|Oncegate-Tenant",
        "X+Oncegate+User",
        "X-Original-URL",
        "X-Rewrite-Url",
        "X-HTTP-Method-Override",
    ];
    let ask = names.iter().fold(refund(&gate, Era::Modern), |ask, name| ask.header(name, "/admin"));
    assert_eq!(ask.send().await.met(), "first");
    let calls = upstream.calls("refund_order");
    for (name, value) in &calls[0].http.headers {
        assert_ne!(value, "/admin", "{name}");
    }
}

#[tokio::test]
async fn a_read_loses_every_key_even_where_one_is_no_good() {
    let (upstream, gate) = started().await;
    let ask = gate.client(Era::Modern).tool("get_invoice", &json!({ "id": "in_1", "idempotency_key": 5 }));
    let ask = ask.with(|body| {
        body["params"]["idempotencyKey"] = json!("k2");
        body["params"]["_meta"]["idempotencyKey"] = json!("k3");
        body["params"]["_meta"]["oncegate/idempotency-key"] = json!("k4");
    });
    assert_eq!(ask.header("Idempotency-Key", "k5").send().await.met(), "first");
    let call = &upstream.calls("get_invoice")[0];
    let text = call.json.to_string();
    assert!(!text.contains("dempotency"), "{text}");
    assert_eq!(call.http.header("idempotency-key"), None);
}

#[tokio::test]
async fn a_secret_in_a_header_of_an_answer_is_passed_on_and_not_kept() {
    let (upstream, gate) = started().await;
    let body = r#"{"jsonrpc":"2.0","id":"a","result":{"content":[]}}"#;
    let secret = "https://pay.example.com/r?key=sk_live_abcdefghijklmnop";
    let answer = Answer::http(200, "application/json", body).with_header("Location", secret);
    upstream.script("refund_order", [answer]);
    let first = refund(&gate, Era::Modern).id("a").send().await;
    assert_eq!((first.met().as_str(), first.http.header("location")), ("first", Some(secret)));
    assert_eq!(refund(&gate, Era::Modern).send().await.met(), "answer_not_kept");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn a_question_that_was_not_kept_is_not_called_a_call_that_ran() {
    let (upstream, gate) = started().await;
    let question = json!({
        "resultType": "input_required",
        "requestState": "s1",
        "inputRequests": { "a": { "message": "Is 4111 1111 1111 1111 the card?" } },
    });
    upstream.script("refund_order", [Answer::result(question)]);
    let first = refund(&gate, Era::Modern).send().await;
    assert_eq!(first.result()["resultType"], "input_required");
    let refusal = refund(&gate, Era::Modern).send().await.refusal();
    assert_eq!((&refusal["executed"], &refusal["retry"]), (&json!("maybe"), &json!("no")), "{refusal}");
    assert_eq!(upstream.calls("refund_order").len(), 1);
}

#[tokio::test]
async fn a_secret_that_stands_for_a_tools_name_is_not_written_down() {
    let (_upstream, gate) = started().await;
    gate.client(Era::Legacy).tool("sk_live_abcdefghijklmnop", &json!({})).key("k1").send().await;
    let rows = gate.audit(1).await;
    assert_eq!(rows[0]["reason"], "not_in_policy");
    assert!(!rows[0].to_string().contains("abcdefghijklmnop"), "{}", rows[0]);
}

#[tokio::test]
async fn a_denial_leaves_its_row_though_its_caller_hangs_up() {
    let upstream = Upstream::start().await;
    let url = postgres::database().await;
    let gate = Gate::start_on(Setup::new(Home::Postgres, &upstream.url()), Some(url.clone())).await;
    assert_eq!(refund(&gate, Era::Modern).send().await.met(), "first");
    let (lock, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the database");
    let carried = tokio::spawn(connection);
    let locked = "begin; lock table oncegate.idempotency_claims in access exclusive mode";
    lock.batch_execute(locked).await.expect("a lock");
    let other = gate.client(Era::Modern).tool("refund_order", &json!({ "order_id": "other" })).key("k1");
    let open = other.open().await;
    eventually("the claim to wait", async || {
        let waiting = "select 1 from pg_locks where not granted";
        let rows = lock.query(waiting, &[]).await.expect("the locks");
        (!rows.is_empty()).then_some(())
    })
    .await;
    open.reset();
    lock.batch_execute("rollback").await.expect("the lock is gone");
    let rows = gate.audit(2).await;
    assert_eq!((rows.len(), &rows[1]["reason"]), (2, &json!("idempotency_payload_mismatch")));
    drop(lock);
    carried.await.expect("the connection's task").expect("it ends well");
}

#[tokio::test]
async fn a_re_run_that_is_turned_away_while_the_store_is_down_is_not_said_not_to_have_run() {
    let upstream = Upstream::start().await;
    let url = postgres::database().await;
    let server = postgres::address();
    let mut cable = Cable::to(server).await;
    let url = url.replace(&server.to_string(), &cable.address().to_string());
    let setup = Setup::new(Home::Postgres, &upstream.url()).set("upstream.timeout", "4s");
    let gate = Gate::start_on(setup, Some(url)).await;
    let hold = crate::harness::answer::Hold::new();
    let turned_away = Answer::http(404, "text/plain", "no such thing").behind(&hold);
    upstream.script("charge_card", [Answer::reset(), turned_away]);
    let charge = || gate.client(Era::Modern).tool("charge_card", &json!({ "cents": 1 })).key("k1");
    let lost = charge().send().await.refusal();
    assert_eq!(lost["executed"], "maybe");
    // As it was told: the backend's whole time must have passed.
    let wait = lost["retry_after_ms"].as_u64().expect("a retry is possible") + 50;
    tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
    let open = charge().open().await;
    upstream.called("charge_card", 2).await;
    cable.cut().await;
    hold.release();
    let refusal = open.reply().await.refusal();
    assert_eq!((&refusal["code"], &refusal["executed"]), (&json!("outcome_unknown"), &json!("maybe")));
    cable.mend().await;
    eventually("the outcome to be stored", async || {
        (gate.claim("k1").await["status"] == "unknown").then_some(())
    })
    .await;
}
