//! Tasks: a handle is the call's answer, and only its owner can do anything with it.

mod hang_up;
mod ids;
mod lists;
mod policy;
mod streams;

use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const TASKS: &str = "io.modelcontextprotocol/tasks";
const FOLLOW_UPS: [&str; 4] = ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update"];

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    (upstream, gate)
}

/// A task's state, as each era tells it.
fn state(era: Era, id: &str, status: &str) -> Value {
    let mut state = json!({ "taskId": id, "status": status, "createdAt": "2026-07-28T10:00:00Z" });
    match era {
        Era::Modern => state["ttlMs"] = json!(60000),
        Era::Legacy => state["ttl"] = json!(60000),
    }
    state
}

/// The answer that a task was made.
fn created(era: Era, id: &str) -> Answer {
    Answer::result(match era {
        Era::Modern => {
            let mut result = state(era, id, "working");
            result["resultType"] = json!("task");
            result
        }
        Era::Legacy => json!({ "task": state(era, id, "working") }),
    })
}

fn with_tasks(era: Era, ask: Ask) -> Ask {
    ask.with(|body| match era {
        Era::Modern => {
            body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({ "extensions": { TASKS: {} } });
        }
        Era::Legacy => body["params"]["task"] = json!({ "ttl": 60000 }),
    })
}

fn refund(client: &Client, era: Era) -> Ask {
    with_tasks(era, client.tool("refund_order", &json!({ "order_id": "o" })).key("k1"))
}

/// A request about a task, with the header and the capability that the modern era wants.
fn about(client: &Client, method: &str, id: &str) -> Ask {
    declared(client.rpc(method, &json!({ "taskId": id })).header("Mcp-Name", id))
}

/// The request, of a client that knows tasks.
fn declared(ask: Ask) -> Ask {
    ask.with(|body| {
        if let Some(can) = body["params"]["_meta"].get_mut("io.modelcontextprotocol/clientCapabilities") {
            *can = json!({ "extensions": { TASKS: {} } });
        }
    })
}

/// The id in an answer that made a task.
fn id_in(era: Era, reply: &Reply) -> String {
    let result = reply.result();
    let id = if era == Era::Modern { &result["taskId"] } else { &result["task"]["taskId"] };
    id.as_str().unwrap_or_else(|| panic!("a task in {result}")).to_owned()
}

/// A task of this client's, made upstream under the id `t-1`.
async fn made(upstream: &Upstream, client: &Client, era: Era) -> String {
    upstream.script("refund_order", [created(era, "t-1")]);
    let reply = refund(client, era).send().await;
    assert_eq!(reply.met(), "first");
    id_in(era, &reply)
}

fn sent(upstream: &Upstream, method: &str) -> Vec<(Value, Option<String>)> {
    let of = upstream.received().into_iter().filter(|request| request.rpc() == method);
    of.map(|request| {
        let name = request.http.header("mcp-name").map(str::to_owned);
        (request.json["params"]["taskId"].clone(), name)
    })
    .collect()
}

#[tokio::test]
async fn a_task_is_the_calls_answer_and_replays_as_such() {
    on_every_store(async |home| {
        for era in Era::ALL {
            let upstream = Upstream::start().await;
            let gate = Gate::start(Setup::new(home, &upstream.url())).await;
            let client = gate.client(era);
            let id = made(&upstream, &client, era).await;
            assert!(id.starts_with("t-1~"), "{id}");
            assert_eq!(gate.claim("k1").await["status"], "completed");
            let replay = refund(&client, era).send().await;
            assert_eq!((replay.met(), id_in(era, &replay)), ("replay".to_owned(), id));
            assert_eq!(upstream.calls("refund_order").len(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn its_owner_follows_it_up_by_the_name_he_got() {
    for era in Era::ALL {
        let (upstream, gate) = started().await;
        let client = gate.client(era);
        let id = made(&upstream, &client, era).await;
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            upstream.script(method, [Answer::result(state(era, "t-1", "working"))]);
            let reply = about(&client, method, &id).send().await;
            assert_eq!(
                (reply.met(), &reply.result()["taskId"]),
                ("first".to_owned(), &json!(id)),
                "{method}"
            );
            assert_eq!(sent(&upstream, method), [(json!("t-1"), Some("t-1".to_owned()))], "{method}");
        }
    }
}

#[tokio::test]
async fn nobody_else_gets_anywhere_with_it() {
    for era in Era::ALL {
        let (upstream, gate) = started().await;
        let ann = gate.client(era);
        let id = made(&upstream, &ann, era).await;
        let neighbour = gate.client_with(era, &json!({ "sub": "u2" }));
        let foreign = gate.client_with(era, &json!({ "tenant_id": "globex" }));
        let forged = id.replacen("t-1", "t-2", 1);
        let before = upstream.received().len();
        for method in FOLLOW_UPS {
            for (client, id) in [
                (&neighbour, id.as_str()),
                (&foreign, &id),
                (&ann, "t-1"),
                (&ann, &forged),
                (&ann, &id[..id.len() - 1]),
            ] {
                check_refused(era, method, &about(client, method, id).send().await);
            }
            for params in [json!({}), json!({ "taskId": 1 })] {
                check_refused(era, method, &declared(ann.rpc(method, &params)).send().await);
            }
        }
        assert_eq!(upstream.received().len(), before, "nothing was forwarded");
        let rows = gate.audit(1 + 4 * 7).await;
        let told: Vec<_> = rows.iter().filter(|row| row["reason"] == "no_such_task").collect();
        assert_eq!(told.len(), 4 * 7, "{rows:?}");
        assert!(told.iter().all(|row| row["decision"] == "denied" && row["executed"] == "no"), "{told:?}");
    }
}

fn check_refused(era: Era, method: &str, reply: &Reply) {
    let json = reply.json();
    // The modern era has no such method any more, whatever it names.
    let gone = era == Era::Modern && method == "tasks/result";
    let (status, word) = if gone { (404, "-32601") } else { (200, "-32602") };
    assert_eq!((reply.status(), &json["id"], reply.word()), (status, &json!(1), word.to_owned()), "{json}");
    let refusal = &json["error"]["data"]["oncegate/refusal"];
    assert_eq!((&refusal["code"], &refusal["executed"]), (&json!("no_such_task"), &json!("no")), "{json}");
}

#[tokio::test]
async fn a_modern_client_that_knows_no_tasks_is_told_so_first() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Modern);
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let ask = client.rpc(method, &json!({ "taskId": "t-1" })).header("Mcp-Name", "t-1");
        let reply = ask.send().await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status(), &error["code"]), (400, &json!(-32021)), "{method}");
        assert_eq!(error["data"]["requiredCapabilities"], json!({ "extensions": { TASKS: {} } }));
        assert_eq!(error["data"]["oncegate/refusal"]["executed"], "no");
    }
    assert_eq!(upstream.received().len(), 0, "nothing was forwarded");
}

#[tokio::test]
async fn what_the_policy_hides_of_a_result_it_hides_of_a_tasks_result() {
    let secret = json!({ "content": [], "structuredContent": { "run": 7, "card": "4242", "ok": true } });
    for era in Era::ALL {
        let (upstream, gate) = started().await;
        let client = gate.client(era);
        let id = made(&upstream, &client, era).await;
        let method = if era == Era::Modern { "tasks/get" } else { "tasks/result" };
        let answer = match era {
            Era::Modern => {
                let mut answer = state(era, "t-1", "completed");
                answer["result"] = secret.clone();
                answer
            }
            Era::Legacy => secret.clone(),
        };
        upstream.script(method, [Answer::result(answer)]);
        let reply = about(&client, method, &id).send().await;
        let result = if era == Era::Modern { reply.result()["result"].clone() } else { reply.result() };
        assert_eq!(result["structuredContent"], json!({ "run": 7, "card": "***", "ok": true }));
        let rows = gate.audit(2).await;
        assert_eq!((&rows[1]["tool"], &rows[1]["decision"]), (&json!(method), &json!("allowed")));
        assert_eq!(rows[1]["result_summary"], json!({ "run": 7 }), "what really came of it: {rows:?}");
    }
}

#[tokio::test]
async fn an_act_on_a_task_is_written_down_before_it_is_answered() {
    for method in ["tasks/cancel", "tasks/update"] {
        let (upstream, mut gate) = started().await;
        let client = gate.client(Era::Modern);
        let id = made(&upstream, &client, Era::Modern).await;
        upstream.script(method, [Answer::result(json!({}))]);
        let ask = about(&client, method, &id);
        let ask = ask.with(|body| {
            body["params"]["inputResponses"] = json!({ "card": { "number": "4111111111111111" } });
        });
        assert_eq!(ask.send().await.met(), "first");
        // What was not committed by now is lost.
        gate.kill();
        let rows = gate.audit(2).await;
        let row = &rows[1];
        assert_eq!(
            (&row["tool"], &row["decision"], &row["executed"], &row["upstream_status"]),
            (&json!(method), &json!("allowed"), &json!("yes"), &json!(200)),
            "{row}"
        );
        assert!(!row["args"].to_string().contains("4111"), "{row}");
    }
}

#[tokio::test]
async fn an_act_whose_answer_got_lost_may_have_been_heard() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Modern);
    let id = made(&upstream, &client, Era::Modern).await;
    upstream.script("tasks/update", [Answer::reset()]);
    let reply = about(&client, "tasks/update", &id).send().await;
    let refusal = reply.json()["error"]["data"]["oncegate/refusal"].clone();
    assert_eq!(
        (reply.status(), &refusal["code"], &refusal["executed"], &refusal["retry"]),
        (200, &json!("outcome_unknown"), &json!("maybe"), &json!("no"))
    );
    let rows = gate.audit(2).await;
    assert_eq!((&rows[1]["reason"], &rows[1]["executed"]), (&json!("outcome_unknown"), &json!("maybe")));
}

#[tokio::test]
async fn another_gate_and_a_restarted_one_know_the_task() {
    let upstream = Upstream::start().await;
    let mut gate = Gate::start(Setup::new(Home::Postgres, &upstream.url())).await;
    let id = made(&upstream, &gate.client(Era::Modern), Era::Modern).await;
    upstream.script("tasks/get", [Answer::result(state(Era::Modern, "t-1", "working"))]);
    let another = gate.another().await;
    gate.kill();
    gate.restart().await;
    for gate in [&gate, &another] {
        let reply = about(&gate.client(Era::Modern), "tasks/get", &id).send().await;
        assert_eq!((reply.met(), &reply.result()["taskId"]), ("first".to_owned(), &json!(id)));
    }
}

#[tokio::test]
async fn an_answer_to_an_act_arrives_however_it_comes() {
    for era in Era::ALL {
        let (upstream, gate) = started().await;
        let client = gate.client(era);
        let id = made(&upstream, &client, era).await;
        let failed =
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32602, "message": "it is over" } });
        let (events, json) = ("text/event-stream", "application/json");
        for (kind, body) in [
            (events, format!("event: message\ndata: {failed}\n\n")),
            (json, failed.to_string()),
            (events, r#"data: {"jsonrpc":"2.0","id":1,"result":{"done":true}}\n\n"#.replace("\\n", "\n")),
            (json, r#"{"jsonrpc":"2.0","id":1,"result":{"done":true}}"#.to_owned()),
        ] {
            upstream.script("tasks/cancel", [Answer::http(200, kind, &body)]);
            let reply = about(&client, "tasks/cancel", &id).send().await;
            let (error, result) = (&reply.json()["error"]["message"], &reply.result()["done"]);
            assert!(*error == "it is over" || *result == true, "{kind} {body}: {:?}", reply.http);
        }
    }
}

#[tokio::test]
async fn an_act_that_the_app_turned_away_did_nothing() {
    let (upstream, gate) = started().await;
    let client = gate.client(Era::Modern);
    let id = made(&upstream, &client, Era::Modern).await;
    upstream.script("tasks/update", [Answer::error(404, -32601)]);
    assert_eq!(about(&client, "tasks/update", &id).send().await.word(), "-32601");
    let rows = gate.audit(2).await;
    assert_eq!((&rows[1]["executed"], &rows[1]["upstream_status"]), (&json!("no"), &json!(404)), "{rows:?}");
}
