//! Every place of a message in which a task's id can stand, in both directions.

use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use oncegate::domain::actor::Actor;
use oncegate::domain::fingerprint::Secrets;
use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::domain::policy::{Kind, Operation, Policy};
use oncegate::domain::refusal::Refusal;
use oncegate::domain::seal::{Handle, Seal};
use oncegate::mcp::given::{Given, MOST};
use oncegate::mcp::message::Message;
use oncegate::mcp::tasks::outbound::Sealer;
use oncegate::mcp::tasks::{Named, Opener};
use serde_json::{Value, json};

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn seal() -> Seal {
    Seal::new(Secrets::new([b"one secret of thirty-two bytes.."]).unwrap(), "billing")
}

fn actor(user: &str) -> Actor {
    Actor::new("acme", user, None, []).unwrap()
}

fn refund() -> Arc<Operation> {
    let text = "[tools.refund]\neffect = \"read\"\nredact = [\"card\"]\n";
    let (policy, _) = Policy::from_sources(&[(PathBuf::from("p.toml"), text.to_owned())]).unwrap();
    Arc::clone(policy.named(Kind::Tool, "refund").unwrap())
}

/// The id `t` as Ann gets it from a call of this operation; from none, where the operation is empty.
fn sealed(made_by: &str) -> String {
    let note: &[&str] = if made_by.is_empty() { &[] } else { &[made_by] };
    seal().seal(Handle::Task, &actor("ann"), "t", note)
}

fn sealer(named: Named, called: Option<Arc<Operation>>) -> Sealer {
    Sealer { seal: seal(), given: Given::default(), actor: actor("ann"), named, called }
}

/// What becomes of a message to the client.
fn out(sealer: &Sealer, message: &Value) -> Value {
    let mut json = Json::parse(message.to_string().as_bytes(), MAX_DEPTH).unwrap();
    let changed = sealer.message(&mut json);
    let after: Value = serde_json::from_str(&json.to_string()).unwrap();
    assert_eq!(changed, after != *message, "it says whether something changed: {message} {after}");
    after
}

/// What becomes of a message from the client.
fn within(user: &str, message: &Value) -> Result<(Value, Named, HeaderMap), Refusal> {
    let mut message = Message::parse(message.to_string().as_bytes()).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("mcp-name", HeaderValue::from_static("as it was"));
    let (seal, given, actor) = (seal(), Given::default(), actor(user));
    let named = Opener { seal: &seal, given: &given, actor: &actor }.message(&mut message, &mut headers)?;
    let body = match message {
        Message::Request(request) | Message::Notification(request) => request.body,
        Message::Response(body) => body,
    };
    Ok((serde_json::from_str(&Json::Object(body).to_string()).unwrap(), named, headers))
}

fn result(result: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "id": 1 });
    message["result"] = result;
    message
}

fn request(method: &str, params: Value) -> Value {
    let mut message = notification(method, params);
    message["id"] = json!(1);
    message
}

fn notification(method: &str, params: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "method": method });
    message["params"] = params;
    message
}

fn related(id: &str) -> Value {
    json!({ "_meta": { RELATED: { "taskId": id } } })
}

#[test]
fn every_id_of_the_servers_leaves_sealed() {
    let call = sealer(Named { elsewhere: true, ..Named::default() }, Some(refund()));
    let by_id = |id: &str| {
        vec![
            result(json!({ "task": { "taskId": id, "status": "working" } })),
            result(json!({ "resultType": "task", "taskId": id, "status": "working" })),
            result(related(id)),
            result(
                json!({ "inputRequests": { "a": { "method": "elicitation/create", "params": related(id) } } }),
            ),
            request("elicitation/create", related(id)),
            notification("notifications/message", related(id)),
            notification("notifications/progress", related(id)),
            notification("notifications/tasks/status", json!({ "taskId": id, "status": "working" })),
            notification("notifications/tasks", json!({ "taskId": id, "status": "working" })),
            notification(
                "notifications/subscriptions/acknowledged",
                json!({ "notifications": { "taskIds": [id] } }),
            ),
        ]
    };
    for (raw, told) in by_id("t").iter().zip(by_id(&sealed("refund"))) {
        assert_eq!(out(&call, raw), told);
    }
}

#[test]
fn what_is_no_id_of_the_servers_leaves_as_it_is() {
    let call = sealer(Named { elsewhere: true, ..Named::default() }, Some(refund()));
    for message in [
        // The client's own tasks, which a legacy server may ask it for.
        request("tasks/get", json!({ "taskId": "t" })),
        request("tasks/cancel", json!({ "taskId": "t" })),
        request("sampling/createMessage", json!({ "task": { "ttl": 1 }, "messages": [] })),
        // A tool's own data.
        result(json!({ "content": [], "structuredContent": { "taskId": "t", "task": { "taskId": "t" } } })),
        result(json!({ "content": [], "taskId": "t", "status": "working" })),
        result(json!({ "tasks": [{ "taskId": "t", "status": "working" }] })),
        result(json!({ "task": "t" })),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "t", "data": { "taskId": "t" } } }),
    ] {
        assert_eq!(out(&call, &message), message);
    }
}

#[test]
fn what_comes_along_with_other_messages_names_a_task_and_gives_nobody_one() {
    let elsewhere = sealer(Named::default(), None);
    let told =
        out(&elsewhere, &notification("notifications/tasks/status", json!({ "taskId": "t", "status": "s" })));
    assert_eq!(told["params"]["taskId"], sealed(""));
    // An answer to the server's question gets back to the task all the same.
    let answer = json!({ "jsonrpc": "2.0", "id": 9, "result": related(&sealed("")) });
    assert_eq!(within("ann", &answer).unwrap().0["result"], related("t"));
    let (_, named, _) = within("ann", &request("tasks/get", json!({ "taskId": sealed("") }))).unwrap();
    assert_eq!(named.subject.unwrap().made_by, None, "it cannot be followed up");
}

#[test]
fn a_task_that_was_given_keeps_its_name_wherever_it_is_told_of() {
    let sealer = sealer(Named::default(), None);
    sealer.given.note(&actor("ann"), "t", "refund");
    let told =
        out(&sealer, &notification("notifications/tasks/status", json!({ "taskId": "t", "status": "s" })));
    assert_eq!(told["params"]["taskId"], sealed("refund"));
}

#[test]
fn a_client_that_names_a_task_hears_of_it_by_that_name() {
    // As it was sealed under an earlier secret, which still opens.
    let old = "t~an-older-seal";
    let task = oncegate::mcp::tasks::Task {
        raw: "t".to_owned(),
        sealed: old.to_owned(),
        made_by: Some("refund".to_owned()),
        operation: Some(refund()),
    };
    let sealer = sealer(Named { subject: Some(task), ..Named::default() }, None);
    let told = out(
        &sealer,
        &result(
            json!({ "taskId": "t", "status": "completed", "result": { "structuredContent": { "card": "4", "b": 1 } } }),
        ),
    );
    assert_eq!(told["result"]["taskId"], old);
    assert_eq!(told["result"]["result"]["structuredContent"], json!({ "card": "***", "b": 1 }));
}

#[test]
fn a_result_that_nobody_can_mask_is_left_out() {
    let elsewhere = sealer(Named::default(), None);
    let params =
        json!({ "taskId": "t", "status": "completed", "result": { "structuredContent": { "card": "4" } } });
    let told = out(&elsewhere, &notification("notifications/tasks", params));
    assert_eq!(told["params"], json!({ "taskId": sealed(""), "status": "completed" }));
}

#[test]
fn every_id_that_a_request_names_is_opened() {
    let by_id = |id: &str| {
        vec![
            request("tasks/get", json!({ "taskId": id })),
            request("tasks/later", json!({ "taskId": id })),
            request("tools/call", json!({ "name": "refund", "_meta": { RELATED: { "taskId": id } } })),
            request("tools/list", related(id)),
            request("tools/call", json!({ "_meta": { "io.modelcontextprotocol/relatedTaskIds": [id] } })),
            request("subscriptions/listen", json!({ "notifications": { "taskIds": [id] } })),
            request("tools/call", json!({ "inputResponses": { "a": related(id) } })),
            notification("notifications/progress", related(id)),
            json!({ "jsonrpc": "2.0", "id": 1, "result": related(id) }),
        ]
    };
    for (told, plain) in by_id(&sealed("refund")).iter().zip(by_id("t")) {
        assert_eq!(within("ann", told).unwrap().0, plain);
    }
}

#[test]
fn a_request_that_names_a_task_of_somebody_elses_is_refused_wherever_it_does() {
    for id in [json!(sealed("refund")), json!("t"), json!(1), Value::Null] {
        for message in [
            request("tasks/get", json!({ "taskId": id })),
            request("tasks/later", json!({ "taskId": id })),
            request("tools/call", json!({ "_meta": { RELATED: { "taskId": id } } })),
            request("tools/list", json!({ "_meta": { RELATED: { "taskId": id } } })),
            request("tools/call", json!({ "_meta": { RELATED: id } })),
            request("tools/call", json!({ "_meta": { "io.modelcontextprotocol/relatedTaskIds": [id] } })),
            request("subscriptions/listen", json!({ "notifications": { "taskIds": [id] } })),
        ] {
            assert_eq!(within("bob", &message).err(), Some(Refusal::NoSuchTask), "{message}");
        }
        // What asks for nothing loses it, and goes on.
        for message in [
            notification("notifications/progress", json!({ "_meta": { RELATED: { "taskId": id } } })),
            request(
                "tools/call",
                json!({ "inputResponses": { "a": { "_meta": { RELATED: { "taskId": id } } } } }),
            ),
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "_meta": { RELATED: { "taskId": id } } } }),
        ] {
            let (after, ..) = within("bob", &message).unwrap();
            assert!(after.to_string().contains("_meta") && !after.to_string().contains(RELATED), "{after}");
        }
    }
}

#[test]
fn a_second_name_for_the_same_member_is_taken_out() {
    let id = sealed("refund");
    let message = request(
        "tools/call",
        json!({ "_meta": { RELATED: { "taskId": id, "TASKID": "other" }, "IO.modelcontextprotocol/related-task": { "taskId": "other" } } }),
    );
    let (after, ..) = within("ann", &message).unwrap();
    assert_eq!(after["params"], related("t"));
}

#[test]
fn a_clients_own_tasks_pass() {
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": { "taskId": "mine", "status": "working" } } }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "taskId": "mine", "status": "working" } }),
        notification("notifications/tasks/status", json!({ "taskId": "mine", "status": "working" })),
    ] {
        assert_eq!(within("ann", &message).unwrap().0, message);
    }
}

#[test]
fn the_header_says_what_the_body_then_says() {
    for (raw, header) in [
        ("t", "t"),
        ("t 1", "t 1"),
        (" t", "=?base64?IHQ=?="),
        ("tä", "=?base64?dMOk?="),
        ("=?base64?", "=?base64?PT9iYXNlNjQ/?="),
    ] {
        let id = seal().seal(Handle::Task, &actor("ann"), raw, &["refund"]);
        let (after, _, headers) = within("ann", &request("tasks/get", json!({ "taskId": id }))).unwrap();
        assert_eq!(after["params"]["taskId"], raw);
        assert_eq!(headers.get("mcp-name").unwrap(), header, "{raw}");
    }
}

#[test]
fn only_so_many_tasks_are_remembered() {
    let (given, ann) = (Given::default(), actor("ann"));
    for n in 0..=MOST {
        given.note(&ann, &n.to_string(), "refund");
        given.note(&ann, "1", "refund");
    }
    assert!(given.made_by(&ann, "0").is_none(), "the oldest is forgotten");
    for raw in ["1".to_owned(), MOST.to_string()] {
        assert_eq!(given.made_by(&ann, &raw).as_deref(), Some("refund"), "{raw}");
    }
    assert!(given.made_by(&actor("bob"), "1").is_none());
}
