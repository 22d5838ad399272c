//! What is the same request, and what is another one under a key that was used.

use serde_json::json;

use super::asker::{Order, order};
use super::{Scene, with_every_client};
use crate::harness::gate::Gate;

const REUSED: &str = "idempotency_key_reuse_with_different_args";

fn refund(gate: &Gate, query: &str) -> Order {
    order(gate, "POST", &format!("/api/orders/o1/refunds{query}"))
}

/// The first of these runs, the others that are the same get its answer, and those that are not a 422.
async fn check(scene: &mut Scene, key: &str, first: Order, same: Vec<Order>, others: Vec<Order>) {
    let mut met = async |order: Order| {
        let met = scene.client.ask(order.key(key)).await;
        (met.met(), met.status, met.problem())
    };
    assert_eq!(met(first.clone()).await.0, "first", "{key}");
    for order in same.into_iter().chain([first]) {
        let (word, _, problem) = met(order.clone()).await;
        assert_eq!(word, "replay", "{key}: {order:?} {problem}");
    }
    for order in others {
        let (word, status, problem) = met(order.clone()).await;
        assert_eq!((word.as_str(), status), (REUSED, 422), "{key}: {order:?} {problem}");
        let told = (&problem["executed"], &problem["retry"], &problem["retryable"]);
        assert_eq!(told, (&json!("no"), &json!("new_key"), &json!(false)), "{problem}");
        assert!(problem["first_seen"].is_string(), "{problem}");
    }
    assert_eq!(scene.heard(key), 1, "{key}");
}

#[tokio::test]
async fn json_is_the_same_by_its_values() {
    with_every_client(async |scene| {
        let json = |text: &str| refund(&scene.gate, "?a=1&b=2").bytes("application/json", text.as_bytes());
        let first = refund(&scene.gate, "?a=1&b=2").json(&json!({ "amount": 500, "note": "é" }));
        let same = vec![
            json(" {\"note\": \"\\u00e9\", \"amount\": 5e2}"),
            refund(&scene.gate, "?b=2&a=1").json(&json!({ "note": "é", "amount": 500 })),
        ];
        let others = vec![
            json("{\"amount\":501,\"note\":\"é\"}"),
            json("{\"amount\":\"500\",\"note\":\"é\"}"),
            refund(&scene.gate, "?a=1&b=3").json(&json!({ "amount": 500, "note": "é" })),
            refund(&scene.gate, "").json(&json!({ "amount": 500, "note": "é" })),
            refund(&scene.gate, "?a=1&b=2").bytes("text/plain", "{\"amount\":500,\"note\":\"é\"}".as_bytes()),
            order(&scene.gate, "POST", "/api/orders/o2/refunds?a=1&b=2")
                .json(&json!({ "amount": 500, "note": "é" })),
        ];
        check(scene, "json", first, same, others).await;
    })
    .await;
}

#[tokio::test]
async fn a_form_is_the_same_in_any_order_of_its_fields() {
    with_every_client(async |scene| {
        let form = |fields: &[(&str, &str)]| refund(&scene.gate, "").form(fields);
        let first = form(&[("amount", "5"), ("note", "a b+c&é"), ("tag", "1"), ("tag", "2")]);
        let same = vec![form(&[("tag", "1"), ("note", "a b+c&é"), ("tag", "2"), ("amount", "5")])];
        let others = vec![
            form(&[("amount", "6"), ("note", "a b+c&é"), ("tag", "1"), ("tag", "2")]),
            form(&[("amount", "5"), ("note", "a b+c&é"), ("tag", "2"), ("tag", "1")]),
        ];
        check(scene, "form", first, same, others).await;
    })
    .await;
}

#[tokio::test]
async fn an_upload_is_the_same_whatever_its_boundary_is() {
    with_every_client(async |scene| {
        let upload = |note: &str, file: &str| refund(&scene.gate, "").upload(note, file);
        let (first, again) = (upload("n", "line\nline\n"), upload("n", "line\nline\n"));
        let others = vec![upload("n", "line\nline"), upload("m", "line\nline\n")];
        check(scene, "upload", first, vec![again], others).await;
        let received = scene.upstream.with_key("upload");
        let kind = received[0].http.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("multipart/form-data; boundary="), "{kind}");
    })
    .await;
}

#[tokio::test]
async fn a_key_in_quotes_is_the_same_key() {
    with_every_client(async |scene| {
        let bare = refund(&scene.gate, "").json(&json!({ "amount": 1 }));
        assert_eq!(scene.client.ask(bare.clone().key("quoted")).await.met(), "first");
        assert_eq!(scene.client.ask(bare.key("\"quoted\"")).await.met(), "replay");
    })
    .await;
}
