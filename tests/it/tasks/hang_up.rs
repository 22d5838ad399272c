//! A client that goes while it does something to a task. Over HTTP/2, where the gate hears of it at once.

use serde_json::{Value, json};

use super::{made, sent, started};
use crate::harness::client::Era;
use crate::harness::eventually;
use crate::harness::h2::H2;

#[tokio::test]
async fn whoever_hangs_up_stops_neither_an_act_nor_its_row() {
    let (upstream, gate) = started().await;
    let id = made(&upstream, &gate.client(Era::Legacy), Era::Legacy).await;
    let (hold, _held) = (upstream.hold("tasks/cancel"), upstream.hold("get_invoice"));
    let mut client = H2::to(gate.address()).await;
    let act = client.send(1, "tasks/cancel", &json!({ "taskId": id }));
    let read = client.send(2, "tools/call", &json!({ "name": "get_invoice", "arguments": {} }));
    eventually("both upstream", async || {
        let here = !sent(&upstream, "tasks/cancel").is_empty() && !upstream.calls("get_invoice").is_empty();
        here.then_some(())
    })
    .await;
    drop((act, read));
    // A read ends with its caller: once its row is there the gate has heard of both.
    assert_eq!(gate.audit(2).await[1]["reason"], "client_gone");
    hold.release();
    let rows = gate.audit(3).await;
    let act = rows.iter().find(|row| row["tool"] == "tasks/cancel").expect("its row");
    assert_eq!((&act["reason"], &act["executed"]), (&Value::Null, &json!("yes")), "{rows:?}");
    client.close().await;
}
