//! The refusal table of DESIGN, row by row, as both eras see it on the wire.
//!
//! Promises: each row is provoked in a running gate, never built by hand.

use serde_json::{Value, json};

use crate::harness::answer::{Answer, Hold};
use crate::harness::client::{Ask, Client, Era, Reply};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

/// How a refusal must look.
struct Looks {
    code: &'static str,
    executed: &'static str,
    retry: &'static str,
    /// The audit row's reason.
    reason: &'static str,
    /// Whether the key was seen before, so that the refusal says when.
    seen_before: bool,
}

const fn looks(code: &'static str, executed: &'static str, retry: &'static str) -> Looks {
    Looks { code, executed, retry, reason: code, seen_before: false }
}

/// A tool error in the shape that every SDK takes, and its audit row.
async fn check(gate: &Gate, era: Era, reply: &Reply, looks: &Looks) {
    let json = reply.json();
    let result = reply.result();
    assert_eq!(reply.status(), 200, "{}: {json}", looks.code);
    assert_eq!(reply.http.header("content-type"), Some("application/json"), "{}", looks.code);
    assert_eq!((&json["jsonrpc"], &json["id"]), (&json!("2.0"), &json!("a-7")), "{json}");
    assert_eq!(result["isError"], true, "{json}");
    assert!(result.get("structuredContent").is_none(), "SDKs check it against the tool's schema: {json}");
    let expected = if era == Era::Modern { json!("complete") } else { Value::Null };
    assert_eq!(result["resultType"], expected, "{json}");
    let content = result["content"].as_array().expect("content");
    let text = content[0]["text"].as_str().unwrap_or_default();
    assert!(content.len() == 1 && text.ends_with('.') && text.contains(' '), "one plain sentence: {json}");
    let refusal = reply.refusal();
    let told = (&refusal["code"], &refusal["executed"], &refusal["retry"]);
    assert_eq!(told, (&json!(looks.code), &json!(looks.executed), &json!(looks.retry)), "{json}");
    assert_eq!(refusal["first_seen"].is_string(), looks.seen_before, "{json}");
    let rows = gate.audit(1).await;
    let row = rows.last().expect("a row");
    assert_eq!((&row["reason"], &row["executed"]), (&json!(looks.reason), &json!(looks.executed)), "{row}");
}

fn refund(client: &Client, key: &str) -> Ask {
    client.tool("refund_order", &json!({ "order_id": "ord_9f2", "amount_cents": 500 })).key(key).id("a-7")
}

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    (upstream, gate)
}

#[tokio::test]
async fn what_policy_does_not_allow() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let client = gate.client(era);
        for (tool, reason) in [("no_such_tool", "not_in_policy"), ("run_sql", "denied_by_policy")] {
            let reply = client.tool(tool, &json!({})).id("a-7").send().await;
            check(&gate, era, &reply, &Looks { reason, ..looks("operation_not_allowed", "no", "no") }).await;
        }
        let poor = gate.client_with(era, &json!({ "scope": "billing:read" }));
        let reply = poor.tool("send_mail", &json!({})).key("k").id("a-7").send().await;
        let reason = "missing_scope";
        check(&gate, era, &reply, &Looks { reason, ..looks("forbidden", "no", "same_key") }).await;
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_a_key() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let bare = gate.client(era).tool("refund_order", &json!({ "order_id": "o" })).id("a-7");
        let missing =
            Looks { reason: "missing_idempotency_key", ..looks("idempotency_key_required", "no", "new_key") };
        check(&gate, era, &bare.clone().send().await, &missing).await;
        check(&gate, era, &bare.clone().key(" \t ").send().await, &missing).await;
        for key in ["k".repeat(129).as_str(), "a\0b", "schlüssel"] {
            let reply = bare.clone().key(key).send().await;
            check(&gate, era, &reply, &looks("idempotency_key_invalid", "no", "new_key")).await;
        }
        let number = bare.clone().with(|body| body["params"]["arguments"]["idempotency_key"] = json!(7));
        check(&gate, era, &number.send().await, &looks("idempotency_key_invalid", "no", "new_key")).await;
        for other in [
            bare.clone().key("k1").header("Idempotency-Key", "k2"),
            bare.clone()
                .key("k1")
                .with(|body| body["params"]["_meta"]["oncegate/idempotency-key"] = json!("k2")),
            bare.clone().header("Idempotency-Key", "k1").header("Idempotency-Key", "k1"),
        ] {
            check(&gate, era, &other.send().await, &looks("idempotency_key_ambiguous", "no", "new_key"))
                .await;
        }
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_a_known_key() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let client = gate.client(era);
        let key = format!("known-{era:?}");
        assert_eq!(refund(&client, &key).send().await.met(), "first");
        let code = "idempotency_key_reuse_with_different_args";
        let mismatch = Looks {
            reason: "idempotency_payload_mismatch",
            seen_before: true,
            ..looks(code, "no", "new_key")
        };
        let other =
            refund(&client, &key).with(|body| body["params"]["arguments"]["amount_cents"] = json!(501));
        let other = other.send().await;
        check(&gate, era, &other, &mismatch).await;
        let stranger = gate.client_with(era, &json!({ "sub": "u2" }));
        let strange = refund(&stranger, &key).send().await;
        let foreign = Looks { reason: "idempotency_key_of_another_user", ..mismatch };
        check(&gate, era, &strange, &foreign).await;
        assert_eq!(other.json(), strange.json(), "whose key it is, is nobody's business");
    }
    assert_eq!(upstream.calls("refund_order").len(), 2);
}

#[tokio::test]
async fn a_call_that_still_runs() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let key = format!("running-{era:?}");
        let hold = upstream.hold("refund_order");
        let before = upstream.calls("refund_order").len();
        let open = refund(&gate.client(era), &key).open().await;
        upstream.called("refund_order", before + 1).await;
        let reply = refund(&gate.client(era), &key).send().await;
        let running = Looks {
            reason: "idempotency_in_flight",
            seen_before: true,
            ..looks("request_in_flight", "maybe", "same_key")
        };
        check(&gate, era, &reply, &running).await;
        assert!(reply.refusal()["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{}", reply.json());
        hold.release();
        assert_eq!(open.reply().await.met(), "first");
    }
}

#[tokio::test]
async fn an_outcome_that_is_not_known() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        upstream.script("refund_order", [Answer::http(500, "text/plain", "oops")]);
        let key = format!("lost-{era:?}");
        let unknown = Looks { seen_before: true, ..looks("outcome_unknown", "maybe", "no") };
        for _ in 0..2 {
            check(&gate, era, &refund(&gate.client(era), &key).send().await, &unknown).await;
        }
    }
    assert_eq!(upstream.calls("refund_order").len(), 2);
}

#[tokio::test]
async fn a_call_that_was_not_executed() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        upstream.script("refund_order", [Answer::http(404, "text/plain", "no route")]);
        let reply = refund(&gate.client(era), &format!("not-run-{era:?}")).send().await;
        check(&gate, era, &reply, &looks("execution_failed", "no", "same_key")).await;
    }
    drop(upstream);
    for era in Era::ALL {
        let reply = refund(&gate.client(era), &format!("down-{era:?}")).send().await;
        check(&gate, era, &reply, &looks("upstream_unreachable", "no", "same_key")).await;
    }
}

#[tokio::test]
async fn an_answer_that_was_not_kept() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("limits.stored_response", "1KiB");
    let gate = Gate::start(setup).await;
    let secret = "the card is 4111 1111 1111 1111";
    let answers = [("secret", secret.to_owned()), ("large", "x".repeat(2_000))];
    for era in Era::ALL {
        for (name, text) in &answers {
            let key = format!("{name}-{era:?}");
            upstream.script("refund_order", [Answer::tool(text, &json!({}))]);
            let first = refund(&gate.client(era), &key).send().await;
            assert_eq!(first.result()["content"][0]["text"], *text, "the first client gets it whole");
            let kept = Looks { seen_before: true, ..looks("answer_not_kept", "yes", "no") };
            check(&gate, era, &refund(&gate.client(era), &key).send().await, &kept).await;
        }
        let key = format!("header-{era:?}");
        let secret =
            Answer::http(200, "application/json", r#"{"jsonrpc":"2.0","id":"a-7","result":{"content":[]}}"#)
                .with_header("Location", "/refunds/1?key=sk_live_abcdefghijklmnop");
        upstream.script("refund_order", [secret]);
        assert_eq!(refund(&gate.client(era), &key).send().await.met(), "first");
        let kept = Looks { seen_before: true, ..looks("answer_not_kept", "yes", "no") };
        check(&gate, era, &refund(&gate.client(era), &key).send().await, &kept).await;
    }
    assert_eq!(upstream.calls("refund_order").len(), 6);
}

#[tokio::test]
async fn the_same_intent_under_another_key() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let client = gate.client_with(era, &json!({ "sub": format!("{era:?}") }));
        let ask = |tool, key| {
            client.tool(tool, &json!({ "to": "a@example.com" })).key(&format!("{key}-{era:?}")).id("a-7")
        };
        assert_eq!(ask("send_once", "k1").send().await.met(), "first");
        let twin = ask("send_once", "k2").send().await;
        let refused = Looks { seen_before: true, ..looks("possible_duplicate", "no", "same_key") };
        check(&gate, era, &twin, &refused).await;
        assert_eq!(twin.refusal()["earlier_key"], format!("k1-{era:?}"));
        assert_eq!(ask("send_password_reset", "k1").send().await.met(), "first");
        let flagged = ask("send_password_reset", "k2").send().await;
        assert_eq!(flagged.met(), "first", "flagged, not refused");
        let mark = flagged.result()["_meta"]["oncegate/possible_duplicate"].clone();
        assert_eq!(mark["earlier_key"], format!("k1-{era:?}"));
        let row = gate.audit(1).await.pop().expect("a row");
        assert_eq!((&row["decision"], &row["reason"]), (&json!("allowed"), &json!("possible_duplicate")));
    }
    assert_eq!(upstream.calls("send_once").len(), 2);
    assert_eq!(upstream.calls("send_password_reset").len(), 4);
}

#[tokio::test]
async fn a_gate_without_room() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(Home::Sqlite, &upstream.url()).set("limits.concurrent_calls", 1);
    let gate = Gate::start(setup).await;
    for era in Era::ALL {
        let hold: Hold = upstream.hold("refund_order");
        let before = upstream.calls("refund_order").len();
        let open = refund(&gate.client(era), &format!("first-{era:?}")).open().await;
        upstream.called("refund_order", before + 1).await;
        let reply = refund(&gate.client(era), &format!("second-{era:?}")).send().await;
        check(&gate, era, &reply, &looks("overloaded", "no", "same_key")).await;
        hold.release();
        assert_eq!(open.reply().await.met(), "first");
    }
    assert_eq!(upstream.calls("refund_order").len(), 2);
}

/// A challenge as RFC 6750 and MCP's authorization want it, with a JSON-RPC error under the request's id.
fn check_challenge(reply: &Reply, status: u16, has: &[&str]) {
    assert_eq!(reply.status(), status, "{}", reply.json());
    let challenge = reply.http.header("www-authenticate").expect("a challenge");
    let metadata = r#"resource_metadata="https://api.example.com/.well-known/oauth-protected-resource/mcp""#;
    for part in [&["Bearer ", metadata], has].concat() {
        assert!(challenge.contains(part), "{part} is not in {challenge}");
    }
    let json = reply.json();
    assert!(json["error"]["code"].is_i64() && json["error"]["message"].is_string(), "{json}");
    assert_eq!(json["id"], "a-7", "{json}");
}

#[tokio::test]
async fn tokens_and_scopes_are_challenged() {
    let (upstream, gate) = started().await;
    for era in Era::ALL {
        let nobody = Client::new(gate.address(), era);
        check_challenge(&refund(&nobody, "k").send().await, 401, &["scope=\"billing:refund\""]);
        check_challenge(
            &refund(&nobody.bearing("nonsense"), "k").send().await,
            401,
            &["error=\"invalid_token\""],
        );
        let poor = gate.client_with(era, &json!({ "scope": "billing:read" }));
        let has = ["error=\"insufficient_scope\"", "scope=\"billing:refund\""];
        check_challenge(&refund(&poor, "k").send().await, 403, &has);
        let row = gate.audit(1).await.pop().expect("a row");
        assert_eq!((&row["decision"], &row["reason"]), (&json!("denied"), &json!("missing_scope")));
    }
    assert!(upstream.received().is_empty());
}
