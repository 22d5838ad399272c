//! The harness itself: the scripted upstream says what it was told, and counts what it received.

use std::time::Duration;

use serde_json::json;

use crate::harness::answer::{Answer, Step};
use crate::harness::cable::Cable;
use crate::harness::client::{Client, Era};
use crate::harness::postgres;
use crate::harness::upstream::Upstream;

#[tokio::test]
async fn each_answer_is_given_in_its_order_and_every_request_is_counted() {
    let upstream = Upstream::start().await;
    let client = Client::new(upstream.address(), Era::Modern);
    upstream.script("pay", [Answer::tool_error("no"), Answer::error(400, -32602), Answer::stream(json!({}))]);
    let ask = client.tool("pay", &json!({ "to": "x" })).key("k1").id("seven");
    assert_eq!(ask.clone().send().await.result()["isError"], true);
    assert_eq!(ask.clone().send().await.word(), "-32602");
    let streamed = ask.clone().send().await;
    assert_eq!(
        (streamed.json()["id"].clone(), streamed.result()["resultType"].clone()),
        (json!("seven"), json!("complete"))
    );
    assert_eq!(upstream.called("pay", 3).await.len(), 3);
    assert_eq!(upstream.received()[0].http.header("mcp-name"), Some("pay"));
}

#[tokio::test]
async fn without_a_script_a_tool_counts_its_runs() {
    let upstream = Upstream::start().await;
    let client = Client::new(upstream.address(), Era::Legacy);
    for run in 1..=2 {
        let reply = client.tool("pay", &json!({})).send().await;
        assert_eq!(reply.result()["structuredContent"]["run"], run);
    }
}

#[tokio::test]
async fn a_held_call_is_received_before_it_is_answered() {
    let upstream = Upstream::start().await;
    let hold = upstream.hold("pay");
    let open = Client::new(upstream.address(), Era::Modern).tool("pay", &json!({})).open().await;
    upstream.called("pay", 1).await;
    hold.release();
    assert_eq!(open.reply().await.result()["structuredContent"]["held"], true);
}

#[tokio::test]
async fn raw_steps_go_out_as_they_are() {
    let upstream = Upstream::start().await;
    let text = "HTTP/1.1 418 Scripted\r\nx-odd: 1\r\ncontent-length: 0\r\n\r\n";
    upstream.script("pay", [Answer::raw(vec![Step::Send(text.into())]).after(Duration::from_millis(1))]);
    let reply = Client::new(upstream.address(), Era::Legacy).tool("pay", &json!({})).send().await;
    assert_eq!((reply.status(), reply.http.header("X-Odd")), (418, Some("1")));
}

#[tokio::test]
async fn each_database_is_new_and_empty() {
    let (one, two) = (postgres::database().await, postgres::database().await);
    assert_ne!(one, two);
    let (client, connection) =
        tokio_postgres::connect(&one, tokio_postgres::NoTls).await.expect("a database");
    let carried = tokio::spawn(connection);
    let tables =
        client.query("select 1 from pg_tables where schemaname = 'public'", &[]).await.expect("rows");
    assert!(tables.is_empty());
    drop(client);
    carried.await.expect("the connection's task").expect("it ends well");
}

#[tokio::test]
async fn a_cut_cable_carries_nothing_until_it_is_mended() {
    let upstream = Upstream::start().await;
    let mut cable = Cable::to(upstream.address()).await;
    let ask = Client::new(cable.address(), Era::Modern).tool("pay", &json!({}));
    assert_eq!(ask.clone().send().await.word(), "ok");
    let hold = upstream.hold("pay");
    let open = ask.clone().open().await;
    upstream.called("pay", 2).await;
    cable.cut().await;
    assert!(ask.clone().try_send().await.is_none(), "new connections are refused");
    hold.release();
    assert!(open.try_reply().await.is_none(), "old ones are gone");
    cable.mend().await;
    assert_eq!(ask.send().await.word(), "ok");
}
