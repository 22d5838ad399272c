//! What streams cost in memory, whoever listens and however slowly.
//!
//! The bound is asked of the unoptimised build that the tests run, whose futures are larger than a release's.

use serde_json::{Value, json};

use crate::harness::answer::{Answer, Hold, Step};
use crate::harness::client::{Client, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::stream::Stream;
use crate::harness::upstream::Upstream;

/// The most that one stream may cost, in bytes.
const A_STREAM: u64 = 64 * 1024;

fn progress() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": 1 } })
}

async fn listening(client: &Client) -> Stream {
    let ask = client.rpc("", &json!({})).body("").line("GET /mcp").without("Content-Type");
    let mut stream = ask.open().await.stream();
    stream.until("\"progress\":1").await;
    stream
}

async fn calling(client: &Client, number: usize) -> Stream {
    let tool = if number.is_multiple_of(2) { "get_invoice" } else { "refund_order" };
    let ask = client.tool(tool, &json!({ "order_id": number })).key(&format!("k{number}"));
    let mut stream = ask.id(number).open().await.stream();
    stream.until("\"progress\":1").await;
    stream
}

#[tokio::test]
async fn a_thousand_listeners_and_two_hundred_streaming_calls_cost_little() {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    let hold = Hold::new();
    upstream.script("GET", [Answer::events().event("id: g1\n", &progress()).then(Step::Hang)]);
    let result = json!({ "content": [] });
    for tool in ["get_invoice", "refund_order"] {
        let answer = Answer::events().event("", &progress()).then(Step::Hold(hold.clone()));
        upstream.script(tool, [answer.then_result("", &result)]);
    }
    let client = gate.client(Era::Legacy);
    let mut open = Vec::new();
    for number in 0..8 {
        open.push(listening(&client).await);
        open.push(calling(&client, number).await);
    }
    let idle = gate.memory();
    for _ in 0..1000 {
        open.push(listening(&client).await);
    }
    let with_listeners = gate.memory();
    let each = with_listeners.saturating_sub(idle) / 1000;
    assert!(each < A_STREAM, "a listener costs {each} bytes");
    let mut calls = Vec::new();
    for number in 1000..1200 {
        calls.push(calling(&client, number).await);
    }
    let with_calls = gate.memory();
    let each_call = with_calls.saturating_sub(with_listeners) / 200;
    assert!(each_call < A_STREAM, "a streaming call costs {each_call} bytes");
    eprintln!("a listener costs {each} bytes, a streaming call {each_call}");
    hold.release();
    for mut call in calls {
        call.end().await;
    }
}
