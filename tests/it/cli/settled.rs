//! `oncegate claims`: how long they have been what they are, and answers of plain routes.

use std::time::Duration;

use oncegate::domain::time::When;
use oncegate::store::ClaimFilter;
use serde_json::json;

use super::check;
use super::house::{House, facts, put};
use crate::harness::setup::Home;

const ROUTES: &str = r#"
[routes.create_refund]
method = "POST"
path = "/orders/{order}/refunds"
effect = "mutation"
scopes = ["s"]
redact = ["card"]

[jobs.settle]
effect = "mutation"
scopes = ["s"]
"#;

async fn with_lost() -> House {
    let house = House::on(Home::Sqlite).await;
    house.write("policies/routes.toml", ROUTES);
    let store = house.store().await;
    for (tool, key) in [
        ("create_refund", "json"),
        ("create_refund", "text"),
        ("create_refund", "none"),
        ("create_refund", "secret"),
        ("settle", "job"),
        ("refund_order", "tool"),
    ] {
        put(&*store, facts(tool, key), |_| {}).await;
    }
    store.close().await;
    house
}

fn resolve<'a>(key: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["claims", "resolve", key, "--because", "seen", "--completed", "--response", "answer"], more].concat()
}

#[tokio::test]
async fn a_routes_retry_gets_the_status_and_the_body_that_somebody_found() {
    let house = with_lost().await;
    let answer = |key: &str| house.lines(&["claims", "show", key, "--json"]).remove(0)["response"].clone();
    house.write("answer", r#"[{"id":"re_1","card":"x"}]"#);
    house.succeeds(&resolve("json", &["--status", "201"]));
    let kept = answer("json");
    assert_eq!(
        (&kept["status"], &kept["headers"]["content-type"]),
        (&json!(201), &json!("application/json"))
    );
    assert_eq!(
        kept["body"],
        json!([{ "id": "re_1", "card": "***" }]),
        "masked as the policy says, in a list too"
    );
    house.write("answer", "refunded\n");
    house.succeeds(&resolve("text", &[]));
    let kept = answer("text");
    assert_eq!((&kept["status"], &kept["body"]), (&json!(200), &json!("refunded\n")));
    assert_eq!(kept["headers"]["content-type"], "text/plain; charset=utf-8");
    house.write("answer", "card 4111 1111 1111 1111");
    check(&house, &resolve("secret", &[]), 1, "holds what looks like a secret");
    house.write("answer", "");
    house.succeeds(&resolve("none", &["--status", "204"]));
    let kept = answer("none");
    assert_eq!((&kept["status"], &kept["headers"], &kept["body"]), (&json!(204), &json!({}), &json!("")));
}

#[tokio::test]
async fn an_answer_that_has_no_status_is_given_none() {
    let house = with_lost().await;
    house.write("answer", "[1]");
    for key in ["tool", "job"] {
        check(&house, &resolve(key, &["--status", "201"]), 2, "--status is for plain routes");
    }
    check(&house, &resolve("tool", &[]), 1, "does not hold a JSON object");
    check(&house, &resolve("json", &["--status", "99"]), 2, "99 is not in 200..600");
    house.succeeds(&resolve("job", &[]));
    assert_eq!(house.lines(&["claims", "show", "job", "--json"])[0]["response"]["body"], json!([1]));
}

#[tokio::test]
async fn a_long_reason_is_kept_whole_and_a_longer_one_refused() {
    let house = with_lost().await;
    let long = "the bank says so ".repeat(50);
    let arguments = ["claims", "resolve", "json", "--completed", "--because", &long];
    house.succeeds(&arguments);
    assert_eq!(house.lines(&["audit", "--json"])[0]["args"]["because"], long.trim_end());
    let longer = "x".repeat(1001);
    let arguments = ["claims", "resolve", "text", "--completed", "--because", &longer];
    check(&house, &arguments, 2, "it has 1001 characters, and the audit keeps 1000");
}

#[tokio::test]
async fn claims_that_have_been_so_for_long_can_be_asked_for() {
    for home in Home::ALL {
        let house = House::on(home).await;
        let store = house.store().await;
        put(&*store, facts("refund_order", "new"), |_| {}).await;
        put(&*store, facts("refund_order", "old"), |draft| {
            draft.settled_at = When::At(oncegate::domain::time::Timestamp::from_micros(1_000_000));
        })
        .await;
        let keys = |older: &str| -> Vec<String> {
            let rows = house.lines(&["claims", "list", "--json", "--older-than", older]);
            rows.iter().map(|row| row["idempotency_key"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(keys("1h"), ["old"], "{home:?}");
        let filter = ClaimFilter { older_than: Some(Duration::ZERO), limit: 10, ..ClaimFilter::default() };
        assert_eq!(store.claims(&filter).await.unwrap().len(), 2, "{home:?}");
        store.close().await;
    }
    let house = House::on(Home::Sqlite).await;
    let output = house.run(&["claims", "list"]);
    assert_eq!((output.stdout.len(), output.stderr.as_slice()), (0, &b"No claim was found.\n"[..]));
}
