//! Headers that mirror the body: in the modern era they agree or the request is refused, in the legacy era nobody looks.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use http::{HeaderMap, HeaderName, HeaderValue};
use oncegate::mcp::headers::agree;
use oncegate::mcp::message::{Era as Rules, Message};
use oncegate::mcp::mirrors::{Mirror, Mirrors};
use serde_json::{Value, json};

use crate::harness::answer::Answer;
use crate::harness::client::{Ask, Era};
use crate::harness::gate::Gate;
use crate::harness::setup::{Home, Setup};
use crate::harness::upstream::Upstream;

const VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";

/// One request's headers, by name and bytes.
type Headers = Vec<(&'static str, Vec<u8>)>;

fn encoded(text: &str) -> Vec<u8> {
    format!("=?base64?{}?=", STANDARD.encode(text)).into_bytes()
}

fn met(body: &Value, headers: &Headers) -> Result<Rules, String> {
    let Ok(Message::Request(request)) = Message::parse(body.to_string().as_bytes()) else {
        panic!("{body} is no request")
    };
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let value = HeaderValue::from_bytes(value).expect("what HTTP can carry");
        map.append(HeaderName::try_from(*name).expect("a name"), value);
    }
    agree(&request, &map).map_err(|refusal| oncegate::wire::row(&refusal).code.to_owned())
}

fn call(method: &str, member: &str, subject: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {
        member: subject, "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } } })
}

fn mirroring(method: &str, subject: &str) -> Headers {
    let subject = if subject.is_ascii() && subject.trim() == subject {
        subject.as_bytes().to_vec()
    } else {
        encoded(subject)
    };
    vec![(VERSION, b"2026-07-28".to_vec()), (METHOD, method.as_bytes().to_vec()), (NAME, subject)]
}

/// Everything that a header can say instead of `text`.
fn other_values(text: &str) -> Vec<Vec<u8>> {
    let (start, end) = text.split_at(text.char_indices().nth(1).expect("two characters").0);
    let mut swapped = text.to_uppercase();
    if swapped == text {
        swapped = text.to_lowercase();
    }
    let mut values = vec![
        String::new(),
        start.to_owned(),
        end.to_owned(),
        format!("{text}x"),
        format!("x{text}"),
        format!("{start} {end}"),
        format!("{text}, {text}"),
        format!("{text};q=1"),
        format!("\"{text}\""),
        format!("{text}\u{200b}"),
        format!("{text}%20"),
        format!("=?base64?{}", STANDARD.encode(text)),
        format!("{}?=", STANDARD.encode(text)),
        format!("=?BASE64?{}?=", STANDARD.encode(text)),
        format!("=?utf-8?B?{}?=", STANDARD.encode(text)),
        format!("=?base64?{}=?=", STANDARD.encode(text)),
        format!("=?base64?{} ?=", STANDARD.encode(text)),
        "=?base64??=".to_owned(),
        "=?base64?!?=".to_owned(),
        STANDARD.encode(text),
    ];
    if swapped != text {
        values.push(swapped);
    }
    let mut values: Vec<_> = values.into_iter().map(String::into_bytes).collect();
    values.extend([encoded(&format!("{text} ")), encoded(&format!("{text}\0")), encoded("other")]);
    values.push(encoded(&String::from_utf8(encoded(text)).expect("ASCII")));
    values.push(format!("=?base64?{}?=", STANDARD.encode(b"\xff\xfe")).into_bytes());
    values.push([text.as_bytes(), b"\xff"].concat());
    values
}

#[test]
fn whatever_else_a_modern_header_says_is_refused() {
    for (method, member, subject) in [
        ("tools/call", "name", "refund_order"),
        ("tools/call", "name", "rück zahlung"),
        ("tools/call", "name", " padded "),
        ("prompts/get", "name", "Summarise"),
        ("resources/read", "uri", "file:///a/b?c=d#e"),
        ("tasks/get", "taskId", "7f3A"),
        ("tasks/cancel", "taskId", "7f3A"),
    ] {
        let body = call(method, member, subject);
        let good = mirroring(method, subject);
        assert_eq!(met(&body, &good), Ok(Rules::Modern), "{good:?}");
        let mut always_encoded = good.clone();
        always_encoded[2].1 = encoded(subject);
        assert_eq!(met(&body, &always_encoded), Ok(Rules::Modern), "{always_encoded:?}");
        for (place, text) in ["2026-07-28", method, subject].into_iter().enumerate() {
            let refuse = |headers: Headers| {
                assert_eq!(met(&body, &headers), Err("header_mismatch".to_owned()), "{headers:?}");
            };
            let mut missing = good.clone();
            missing.remove(place);
            refuse(missing);
            for repeated in [good[place].1.clone(), b"other".to_vec()] {
                let mut twice = good.clone();
                twice.push((good[place].0, repeated));
                refuse(twice);
            }
            for value in other_values(text) {
                let mut other = good.clone();
                other[place].1 = value;
                refuse(other);
            }
        }
    }
}

#[test]
fn the_same_letters_in_another_form_of_unicode_are_another_name() {
    let body = call("tools/call", "name", "caf\u{e9}");
    assert_eq!(met(&body, &mirroring("tools/call", "caf\u{e9}")), Ok(Rules::Modern));
    let decomposed = met(&body, &mirroring("tools/call", "cafe\u{301}"));
    assert_eq!(decomposed, Err("header_mismatch".to_owned()));
    let alphabet = "tool??>>";
    assert_ne!(STANDARD.encode(alphabet), URL_SAFE.encode(alphabet));
    let mut other = mirroring("tools/call", alphabet);
    other[2].1 = format!("=?base64?{}?=", URL_SAFE.encode(alphabet)).into_bytes();
    assert_eq!(met(&call("tools/call", "name", alphabet), &other), Err("header_mismatch".to_owned()));
}

#[test]
fn what_names_nothing_needs_no_name_and_may_claim_none() {
    let body = call("tools/list", "cursor", "c");
    let mut headers = mirroring("tools/list", "c");
    assert_eq!(met(&body, &headers), Err("header_mismatch".to_owned()), "a name that the body does not have");
    headers.pop();
    assert_eq!(met(&body, &headers), Ok(Rules::Modern));
}

#[test]
fn of_each_tool_the_last_list_counts_and_memory_ends() {
    let mirrors = Mirrors::default();
    let mirror = |name: &str| vec![Mirror::new(name, "tenant_id").expect("a header's name")];
    mirrors.learn("a", mirror("One"));
    mirrors.learn("a", mirror("Two"));
    assert_eq!(mirrors.of("a"), mirror("two"));
    mirrors.learn("a", Vec::new());
    assert_eq!(mirrors.of("a"), []);
    for n in 0..5000 {
        mirrors.learn(&format!("tool {n}"), mirror("One"));
    }
    assert_eq!((mirrors.of("tool 0"), mirrors.of("tool 4999")), (mirror("One"), Vec::new()));
    mirrors.learn("tool 0", mirror("Two"));
    assert_eq!(mirrors.of("tool 0"), mirror("Two"), "what is known is kept up to date all the same");
    assert_eq!(Mirror::new("not a name", "tenant_id"), None);
}

async fn started() -> (Upstream, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::start(Setup::new(Home::Sqlite, &upstream.url())).await;
    (upstream, gate)
}

#[tokio::test]
async fn in_the_legacy_era_the_body_decides_whatever_the_headers_say() {
    let (upstream, gate) = started().await;
    let ask = gate.client(Era::Legacy).tool("get_invoice", &json!({ "order_id": "o" }));
    let with = |name: &str, value: &str| ask.clone().without(name).header(name, value);
    let asks = [
        with(NAME, "run_sql"),
        with(NAME, "=?base64?!?="),
        with(NAME, "a").header(NAME, "b"),
        with(METHOD, "tools/list"),
        with(METHOD, "").header(NAME, ""),
        with(VERSION, "2025-06-18").header(METHOD, "ping").header(NAME, "refund_order"),
        ask.clone().without(VERSION),
    ];
    let count = asks.len();
    for ask in asks {
        assert_eq!(ask.send().await.met(), "first");
    }
    let denied = gate.client(Era::Legacy).tool("run_sql", &json!({})).header(NAME, "get_invoice");
    assert_eq!(denied.send().await.met(), "operation_not_allowed");
    assert_eq!((upstream.calls("get_invoice").len(), upstream.received().len()), (count, count));
}

#[tokio::test]
async fn what_the_gate_does_not_know_passes_untouched() {
    let (upstream, gate) = started().await;
    let headers = [
        ("Mcp-Param-Region", "=?base64?ZXUg?="),
        ("Mcp-Param-Amount", "12.50"),
        ("Mcp-Param-Tenants", "acme, globex"),
        ("Mcp-Something-New", "Exactly  this"),
        ("Mcp-Trace", "=?base64?!?="),
    ];
    let meta = json!({ "progressToken": "t-1", "com.example/x": { "y": [1.0, 9_007_199_254_740_993_u64, null] },
        "oncegate/unknown": true, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" });
    for era in Era::ALL {
        let client = gate.client(era);
        for (tool, key) in [("get_invoice", None), ("refund_order", Some(format!("{era:?}")))] {
            let mut ask = client.tool(tool, &json!({ "order_id": "o" }));
            ask = ask.with(|body| {
                for (name, value) in meta.as_object().expect("an object") {
                    body["params"]["_meta"][name] = value.clone();
                }
            });
            if let Some(key) = &key {
                ask = ask.key(key);
            }
            for (name, value) in headers {
                ask = ask.header(name, value);
            }
            assert_eq!(ask.send().await.met(), "first");
            let call = upstream.calls(tool).pop().expect("a call");
            for (name, value) in headers {
                assert_eq!(call.http.header(name), Some(value), "{era:?} {tool}");
            }
            for (name, value) in meta.as_object().expect("an object") {
                assert_eq!(&call.json["params"]["_meta"][name], value, "{era:?} {tool}");
            }
        }
    }
}

/// A list in which the tenant and the key are mirrored under names of the tool's own.
fn odd_list() -> Answer {
    let property = |header: &str| json!({ "type": "string", "x-mcp-header": header });
    let properties = json!({
        "order_id": property("Order"),
        "tenant_id": property("Where"),
        "idempotency_key": property("Once"),
    });
    let tool =
        |name: &str| json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } });
    Answer::result(json!({ "tools": [tool("refund_order"), tool("get_invoice")] }))
}

#[tokio::test]
async fn a_header_of_another_name_goes_with_the_argument_that_it_mirrors() {
    let (upstream, gate) = started().await;
    upstream.script("tools/list", [odd_list()]);
    let list = gate.client(Era::Modern).rpc("tools/list", &json!({})).send().await.result();
    for tool in list["tools"].as_array().expect("tools") {
        let text = tool.to_string();
        assert!(text.contains("Order") && !text.contains("Where") && !text.contains("Once"), "{text}");
    }
    let ask = |era: Era, tool: &str, key: &str| -> Ask {
        let arguments = json!({ "order_id": "o", "tenant_id": "acme", "idempotency_key": key });
        gate.client(era).tool(tool, &arguments).header("Mcp-Param-Order", "o")
    };
    for (tool, key) in [("get_invoice", "k1"), ("refund_order", "k1")] {
        let agreeing = ask(Era::Modern, tool, key).header("mcp-param-where", "acme");
        assert_eq!(agreeing.header("Mcp-Param-Once", key).send().await.met(), "first");
        for (name, value) in [
            ("Mcp-Param-Where", "globex"),
            ("Mcp-Param-Where", "=?base64?Z2xvYmV4?="),
            ("Mcp-Param-Where", "=?base64?!?="),
            ("Mcp-Param-Once", "k2"),
        ] {
            let reply = ask(Era::Modern, tool, key).header(name, value).send().await;
            assert_eq!((reply.status(), reply.word()), (400, "-32020".to_owned()), "{tool} {name}: {value}");
        }
        let legacy = ask(Era::Legacy, tool, "k3").header("Mcp-Param-Where", "globex");
        assert_eq!(legacy.header("Mcp-Param-Once", "k2").send().await.met(), "first");
        for call in upstream.calls(tool) {
            let names = call.http.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
            let names: Vec<_> = names.filter(|name| name.starts_with("mcp-param-")).collect();
            assert_eq!(names, ["mcp-param-order"], "{tool}");
        }
        assert_eq!(upstream.calls(tool).len(), 2);
    }
    // Another tool chose the same name for something else: it is not this tool's.
    let other = gate.client(Era::Modern).tool("charge_card", &json!({ "where": "x" })).key("k4");
    assert_eq!(other.header("Mcp-Param-Where", "x").send().await.met(), "first");
    assert_eq!(upstream.calls("charge_card")[0].http.header("mcp-param-where"), Some("x"));
}
