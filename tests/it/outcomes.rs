//! What each answer of the upstream proves: DESIGN's classification, row by row.
//!
//! For every scripted answer: where the claim stands, what the client hears, what its retry hears, and how often the
//! upstream was called in the end. The answer after the scripted one is always a plain result.

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use crate::harness::answer::{Answer, Step};
use crate::harness::client::Era;
use crate::harness::gate::Gate;
use crate::harness::on_every_store;
use crate::harness::setup::Setup;
use crate::harness::upstream::Upstream;

/// What a scripted answer proves.
#[derive(Clone, Copy, Debug)]
enum Proves {
    /// It ran: this answer is given, and given again.
    Ran,
    /// It did not run: the same key runs it.
    DidNotRun,
    /// Nothing: it never runs again by itself.
    Nothing,
}

use Proves::{DidNotRun, Nothing, Ran};

/// How many rows are tried at once: few enough that none waits for the disk as long as for a silent upstream.
const AT_ONCE: usize = 12;

fn ok() -> Answer {
    Answer::tool("done", &json!({ "done": true }))
}

fn raw(bytes: &str) -> Answer {
    Answer::raw(vec![Step::Send(bytes.to_owned().into()), Step::Close])
}

/// A 200 with this text as JSON.
fn json_text(text: &str) -> Answer {
    Answer::http(200, "application/json", text)
}

fn rows() -> Vec<(String, Answer, Proves)> {
    let mut rows = vec![
        ("a result".to_owned(), ok(), Ran),
        ("a tool error".to_owned(), Answer::tool_error("no such order"), Ran),
        ("a result as a stream".to_owned(), Answer::stream(json!({ "content": [] })), Ran),
        ("an error in the application's own words".to_owned(), Answer::error(200, 40_901), Ran),
        ("429 with a JSON-RPC error".to_owned(), Answer::error(429, 42_900), Ran),
        ("a stream without its result".to_owned(), Answer::stream_without_result(), Nothing),
        ("HTML".to_owned(), Answer::http(200, "text/html", "<h1>Welcome</h1>"), Nothing),
        ("an empty body".to_owned(), json_text(""), Nothing),
        (
            "another request's answer".to_owned(),
            Answer::result_for("other", &json!({ "content": [] })),
            Nothing,
        ),
        ("no id".to_owned(), Answer::result_for(Value::Null, &json!({ "content": [] })), Nothing),
        ("neither result nor error".to_owned(), json_text(r#"{"jsonrpc":"2.0","id":1}"#), Nothing),
        (
            "a member twice".to_owned(),
            json_text(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"result":{"content":[]}}"#),
            Nothing,
        ),
        ("a body that was cut".to_owned(), Answer::cut(r#"{"jsonrpc":"2.0","id":1,"result":{}"#), Nothing),
        ("a head that was cut".to_owned(), raw("HTTP/1.1 200 OK\r\ncontent-ty"), Nothing),
        ("no answer, and the connection closed".to_owned(), raw(""), Nothing),
        ("no answer, and the connection reset".to_owned(), Answer::reset(), Nothing),
        ("no answer at all".to_owned(), Answer::hang(), Nothing),
        ("what is not HTTP".to_owned(), raw("SSH-2.0-OpenSSH_9.2\r\n\r\n"), Nothing),
    ];
    for code in [-32602, -32603, -32000] {
        for status in [200, 400, 500] {
            rows.push((format!("JSON-RPC {code} under {status}"), Answer::error(status, code), Ran));
        }
    }
    for code in [-32700, -32600, -32601, -32020, -32021, -32022] {
        for status in [200, 400, 404] {
            rows.push((format!("JSON-RPC {code} under {status}"), Answer::error(status, code), DidNotRun));
        }
    }
    rows.push(("JSON-RPC -32602 under 404".to_owned(), Answer::error(404, -32602), Ran));
    for status in [401, 403, 404, 405, 406, 413, 415] {
        rows.push((format!("an error of its own under {status}"), Answer::error(status, 40_100), DidNotRun));
    }
    for status in [401, 403, 404, 405, 406, 413, 415, 429] {
        rows.push((format!("HTTP {status}"), Answer::http(status, "text/plain", "no"), DidNotRun));
    }
    for status in [202, 204, 400, 402, 408, 409, 410, 422, 425, 500, 501, 502, 503, 504] {
        rows.push((format!("HTTP {status}"), Answer::http(status, "text/plain", ""), Nothing));
    }
    for status in [301, 302, 303, 307, 308] {
        rows.push((format!("HTTP {status}"), Answer::redirect(status, "http://127.0.0.1:9/"), Nothing));
    }
    rows
}

async fn check(gate: &Gate, upstream: &Upstream, era: Era, key: &str, answer: Answer, proves: Proves) {
    upstream.script(key, [answer, ok()]);
    let ask = || gate.client(era).tool("refund_order", &json!({ "order_id": "ord_9f2" })).key(key);
    let first = ask().send().await;
    let retry = ask().id(2).send().await;
    let calls = upstream.with_key(key).len();
    let told = |reply: &crate::harness::client::Reply| {
        let refusal = reply.refusal();
        (
            reply.word(),
            refusal["executed"].as_str().map(str::to_owned),
            refusal["retry"].as_str().map(str::to_owned),
        )
    };
    let refused = |code: &str, executed: &str, retry: &str| {
        (code.to_owned(), Some(executed.to_owned()), Some(retry.to_owned()))
    };
    assert_eq!((first.status(), retry.status()), (200, 200), "{key}: {first:?} {retry:?}");
    assert_eq!((&first.json()["id"], &retry.json()["id"]), (&json!(1), &json!(2)), "{key}");
    match proves {
        Ran => {
            assert_eq!(calls, 1, "{key}");
            assert!(!first.is_replay() && retry.is_replay(), "{key}: {retry:?}");
            assert_eq!(first.word(), retry.word(), "{key}");
            assert_eq!(first.json()["error"], retry.json()["error"], "{key}");
        }
        DidNotRun => {
            assert_eq!(told(&first), refused("execution_failed", "no", "same_key"), "{key}");
            assert_eq!((retry.met(), calls), ("first".to_owned(), 2), "{key}");
        }
        Nothing => {
            assert_eq!(told(&first), refused("outcome_unknown", "maybe", "no"), "{key}");
            assert_eq!(told(&retry), refused("outcome_unknown", "maybe", "no"), "{key}");
            assert_eq!(calls, 1, "{key}");
        }
    }
}

#[tokio::test]
async fn each_answer_proves_what_it_proves() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url()).set("upstream.timeout", "2s")).await;
        let mut stand = Vec::new();
        for era in Era::ALL {
            for (name, answer, proves) in rows() {
                let (gate, upstream, key) = (&gate, &upstream, format!("{era:?}: {name}"));
                stand.push(async move {
                    check(gate, upstream, era, &key, answer, proves).await;
                    (key, if let Nothing = proves { "unknown" } else { "completed" })
                });
            }
        }
        let stand: Vec<_> = stream::iter(stand).buffer_unordered(AT_ONCE).collect().await;
        let claims = gate.claims().await;
        for (key, status) in stand {
            let claim = claims.iter().find(|claim| claim["idempotency_key"] == key.as_str());
            assert_eq!(claim.map(|claim| &claim["status"]), Some(&json!(status)), "{key}");
        }
    })
    .await;
}

/// A second run, after an attempt that may have run, ends the way that is scripted; where does the claim stand?
async fn check_rerun(gate: &Gate, upstream: &Upstream, name: &str, second: Answer, stands: &str) {
    let forwarded = format!("acme/charge_card/{name}");
    upstream.script(&forwarded, [Answer::reset(), second, ok()]);
    let ask = || gate.client(Era::Modern).tool("charge_card", &json!({ "cents": 5 })).key(name);
    assert_eq!(ask().send().await.word(), "outcome_unknown", "{name}");
    let second = crate::harness::eventually("the second run", async || {
        let reply = ask().send().await;
        (upstream.with_key(&forwarded).len() == 2).then_some(reply)
    })
    .await;
    assert_eq!(gate.claim(name).await["status"], stands, "{name}: {second:?}");
    let expected = if stands == "completed" { "ok" } else { "outcome_unknown" };
    assert_eq!(second.word(), expected, "{name}: a claim that may have run never becomes failed");
}

#[tokio::test]
async fn in_a_second_run_what_may_speak_of_the_retry_proves_nothing() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url()).set("upstream.timeout", "500ms")).await;
        let mut seconds = vec![
            ("ok".to_owned(), ok(), "completed"),
            ("isError".to_owned(), Answer::tool_error("exists"), "unknown"),
        ];
        for status in [401, 404, 409, 412, 422, 423, 425, 429] {
            seconds.push((format!("HTTP {status}"), Answer::http(status, "text/plain", ""), "unknown"));
        }
        for (status, code) in [(200, -32600), (409, 40_901), (429, 42_900)] {
            let name = format!("JSON-RPC {code} under {status}");
            seconds.push((name, Answer::error(status, code), "unknown"));
        }
        let (gate, upstream) = (&gate, &upstream);
        join_all(seconds.into_iter().map(async |(name, second, stands)| {
            check_rerun(gate, upstream, &name, second, stands).await;
        }))
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_tool_error_frees_the_key_where_the_policy_says_so() {
    on_every_store(async |home| {
        let upstream = Upstream::start().await;
        let gate = Gate::start(Setup::new(home, &upstream.url())).await;
        upstream.script("send_mail", [Answer::tool_error("greylisted"), ok()]);
        let ask = || gate.client(Era::Modern).tool("send_mail", &json!({ "to": "a@example.com" })).key("k1");
        let first = ask().send().await;
        assert_eq!(first.result()["isError"], true, "{first:?}");
        assert_eq!(ask().send().await.met(), "first");
        assert_eq!(upstream.calls("send_mail").len(), 2);
    })
    .await;
}
