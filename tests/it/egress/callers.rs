//! Who may call at a listener, and how it is refused whoever may not.

use serde_json::json;

use super::scene::{Plan, Scene, TOKEN, by_shop, is, scene, told};
use crate::harness::client::{Ask, Era};
use crate::harness::on_every_store;
use crate::harness::setup::Home;

const LINE: &str = "POST /v1/payouts";

fn with_key(ask: Ask) -> Ask {
    ask.header("Idempotency-Key", "k1").json(&json!({ "amount": 500 }))
}

/// Refused; a sentence says this.
async fn check(scene: &Scene, ask: Ask, status: u16, code: &str, says: &str) {
    let reply = with_key(ask).send().await;
    let retry = if code == "caller_unknown" { "same_key" } else { "no" };
    is(&reply, status, code, "no", retry);
    let detail = reply.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.contains(says), "{detail}");
    assert_eq!(reply.http.header("www-authenticate"), None, "{reply:?}");
    assert!(scene.provider.received().is_empty());
}

#[tokio::test]
async fn a_service_is_known_by_its_token_and_speaks_for_one_of_its_tenants() {
    on_every_store(async |home| {
        let scene = scene(home).await;
        let bare = || scene.bare(LINE);
        let tenant = |ask: Ask| ask.header("X-Oncegate-Tenant", "acme");
        let unknown = "caller_unknown";
        check(&scene, tenant(bare()), 403, unknown, "X-Oncegate-Token is missing").await;
        for wrong in ["", "x", &TOKEN[1..], &TOKEN.to_ascii_uppercase(), &format!("Bearer {TOKEN}")] {
            let ask = tenant(bare()).header("X-Oncegate-Token", wrong);
            check(&scene, ask, 403, unknown, "X-Oncegate-Token is not known").await;
        }
        let twice = by_shop(bare()).header("X-Oncegate-Token", TOKEN);
        check(&scene, twice, 403, unknown, "X-Oncegate-Token stands there more than once").await;
        // Whatever it sends for the provider is none.
        let bearer = tenant(bare()).header("Authorization", &format!("Bearer {TOKEN}"));
        check(&scene, bearer, 403, unknown, "X-Oncegate-Token is missing").await;
        let token = |ask: Ask| ask.header("X-Oncegate-Token", TOKEN);
        check(&scene, token(bare()), 403, unknown, "X-Oncegate-Tenant: no tenant is named").await;
        let twice = by_shop(bare()).header("X-Oncegate-Tenant", "acme");
        check(&scene, twice, 403, unknown, "more than one tenant is named").await;
        for foreign in ["initech", "ACME", "acme,globex", ""] {
            let ask = token(bare()).header("X-Oncegate-Tenant", foreign);
            check(&scene, ask, 403, "foreign_tenant", "names a tenant").await;
        }
        assert!(!scene.gate.logged().contains(&TOKEN[1..]), "a token is never logged");
        assert!(scene.gate.audit(0).await.is_empty(), "nobody is known to have asked");
        for tenant in ["acme", "globex"] {
            let ask = token(bare()).header("X-Oncegate-Tenant", tenant);
            assert_eq!(with_key(ask).send().await.status(), 200, "{tenant}");
        }
        let tenants: Vec<_> =
            scene.gate.claims().await.iter().map(|claim| claim["tenant_id"].clone()).collect();
        assert_eq!(tenants, ["globex", "acme"], "the same key, and two claims");
    })
    .await;
}

#[tokio::test]
async fn what_the_policy_does_not_name_is_nobodys() {
    let scene = scene(Home::Sqlite).await;
    for line in ["POST /v1/charges", "GET /v1/payouts/po_1", "POST /v1/refunds/re_1/cancel", "GET /mcp"] {
        let reply = by_shop(scene.bare(line)).send().await;
        is(&reply, 403, "operation_not_allowed", "no", "no");
    }
    let reply = by_shop(scene.bare("DELETE /v1/payouts")).send().await;
    is(&reply, 405, "method_not_allowed", "no", "no");
    // The gate before the app has no such routes, and a listener has no MCP endpoint and no documents of the gate's.
    let document = by_shop(scene.bare("GET /.well-known/oauth-protected-resource")).send().await;
    is(&document, 403, "operation_not_allowed", "no", "no");
    assert_eq!(scene.gate.client(Era::Modern).plain(LINE).send().await.status(), 404);
    let call = scene.gate.client(Era::Modern).tool("refund_order", &json!({})).key("k1").send().await;
    assert_eq!(call.met(), "first");
    assert!(scene.provider.received().is_empty());
}

#[tokio::test]
async fn the_pod_itself_calls_where_the_configuration_says_so() {
    let identity = "[identity]\ntenant = \"acme\"\nuser = \"pod\"\nscopes = [\"stripe:refund\"]";
    let scene = Plan::new(Home::Sqlite).await.with(identity).start().await;
    assert_eq!(with_key(scene.bare(LINE)).send().await.status(), 200);
    let again = with_key(scene.bare(LINE)).header("X-Oncegate-Tenant", "acme").send().await;
    assert_eq!(again.http.header("idempotent-replayed"), Some("true"));
    let foreign = with_key(scene.bare(LINE)).header("X-Oncegate-Tenant", "globex").send().await;
    is(&foreign, 403, "foreign_tenant", "no", "no");
    let token = with_key(by_shop(scene.bare(LINE))).send().await;
    is(&token, 403, "caller_unknown", "no", "same_key");
    // The scopes are what it may do.
    let read = scene.bare("GET /v1/refunds/re_1").send().await;
    is(&read, 403, "forbidden", "no", "same_key");
    assert_eq!(read.http.header("www-authenticate"), None, "there is nobody to ask for more");
    let rows = scene.gate.audit(3).await;
    let of = |tool, decision, reason| ["billing:stripe", tool, decision, reason];
    assert_eq!(
        told(&rows),
        [
            of("pay_out", "allowed", ""),
            of("pay_out", "replayed", ""),
            of("show_refund", "denied", "missing_scope")
        ]
    );
    assert!(rows.iter().all(|row| row["user_id"] == "pod" && row["tenant_id"] == "acme"), "{rows:?}");
    assert_eq!(scene.provider.received().len(), 1);
}

#[tokio::test]
async fn the_pod_calls_for_the_tenant_that_each_call_names() {
    let identity =
        "[identity]\ntenants = [\"acme\", \"globex\"]\nuser = \"pod\"\nscopes = [\"stripe:refund\"]";
    let scene = Plan::new(Home::Sqlite).await.with(identity).start().await;
    for tenant in ["acme", "globex"] {
        let reply = with_key(scene.bare(LINE)).header("X-Oncegate-Tenant", tenant).send().await;
        assert_eq!((reply.status(), reply.http.header("idempotent-replayed")), (200, None), "{tenant}");
    }
    is(&with_key(scene.bare(LINE)).send().await, 403, "caller_unknown", "no", "same_key");
    let foreign = with_key(scene.bare(LINE)).header("X-Oncegate-Tenant", "initech").send().await;
    is(&foreign, 403, "foreign_tenant", "no", "no");
    assert_eq!(scene.provider.received().len(), 2);
}

#[tokio::test]
async fn a_listener_is_called_by_its_own_name_and_by_no_page() {
    let plan = Plan::new(Home::Sqlite).await.with("allowed_hosts = [\"out.shop.svc\"]");
    let scene = plan.start().await;
    let host = |host: &str| with_key(by_shop(scene.bare(LINE)).without("Host").header("Host", host));
    for name in ["out.shop.svc", "out.shop.svc:80", "localhost:1"] {
        assert_eq!(host(name).send().await.status(), 200, "{name}");
    }
    for name in ["api.example.com", "evil.example.com", "api.stripe.com"] {
        is(&host(name).send().await, 403, "host_not_allowed", "no", "no");
    }
    for origin in ["http://localhost:3000", "https://api.example.com", "null"] {
        let reply = host("localhost").header("Origin", origin).send().await;
        is(&reply, 403, "origin_not_allowed", "no", "no");
    }
    assert!(scene.gate.logged().contains("None may call this listener"), "{}", scene.gate.logged());
}
