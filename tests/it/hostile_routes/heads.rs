//! Tricks with the path, the method and the headers.

use serde_json::json;

use super::{POLICY, REFUND, Scene, answers, head, refused, scene, scene_with, statuses, word};
use crate::harness::client::Ask;

#[tokio::test]
async fn no_spelling_of_a_guarded_path_passes_by_the_open_prefix() {
    let Scene { upstream, gate, client } = scene().await;
    refused(client.plain("GET /api/admin/export"), 403, "forbidden", "as it is").await;
    for path in [
        "/api/admin/export/",
        "/api/Admin/export",
        "/API/admin/export",
        "/api//admin/export",
        "//api/admin/export",
        "/api/./admin/export",
        "/api/x/../admin/export",
        "/api/x/%2e%2e/admin/export",
        "/api/x/..;/admin/export",
        "/api/x/..%2Fadmin/export",
        "/api/%61dmin/export",
        "/api/%41dmin/export",
        "/api/admin%2Fexport",
        "/api/admin%5Cexport",
        "/api/admin\\export",
        "/api/admin/export;x=1",
        "/api/admin;x=1/export",
        "/api/admin/export%3Bx",
        "/api/admin/export%00",
        "/api/admin/export%0A",
        "/api/admin/export%20",
        "/api/admin/%20export",
        "/api/admin/export.",
        "/api/admin/export.json",
        "/api/admin/export%2Ejson",
        "/api/admin/%EF%BD%85xport",
        "/api/admin/e%C3%97port/..",
        "/api/admin/%2565xport",
        "/api/admin/%u0065xport",
        "/api/index.php/api/admin/export",
        "/api/admin/export%",
        "/api/admin/export%C0%AE",
        "http://evil.example.com/api/admin/export",
        "http://evil.example.com/api/Admin/export",
        "/api/x?/../admin/export",
        "/api/x#/../admin/export",
    ] {
        for method in ["GET", "HEAD", "POST", "get", "PROPFIND"] {
            let written = format!("{method} {path}");
            let all = answers(gate.address(), head(&written, &["Connection: close"]).as_bytes()).await;
            let heard = statuses(&all);
            // The last two are other paths, by everybody's reading, and open for reads.
            let open = path.starts_with("/api/x?") || path.starts_with("/api/x#");
            if open && method != "POST" {
                continue;
            }
            assert!(heard.iter().all(|status| status.starts_with('4')), "{written}: {heard:?}");
        }
    }
    let of_export =
        |path: &str| path.to_ascii_lowercase().split('?').next().is_some_and(|path| path.contains("export"));
    for received in upstream.received() {
        assert!(!of_export(received.http.word(1)), "{}", received.http.start);
    }
}

#[tokio::test]
async fn what_looks_like_the_mcp_endpoint_is_no_plain_path() {
    let Scene { upstream, gate, client } =
        scene_with(|setup| setup.policy("path = \"/api/*\"", "path = \"/*\"")).await;
    for path in [
        "/mcp?a=1",
        "/mcp/",
        "/MCP",
        "/Mcp",
        "/mcp.",
        "/mcp%20",
        "/mcp.json",
        "/mcp//",
        "/./mcp",
        "/mcp;a",
        "/%6Dcp",
    ] {
        for method in ["GET", "HEAD"] {
            let line = format!("{method} {path}");
            let all = answers(gate.address(), head(&line, &["Connection: close"]).as_bytes()).await;
            assert!(
                statuses(&all).iter().all(|status| status.starts_with('4')),
                "{line}: {:?}",
                statuses(&all)
            );
        }
    }
    assert!(upstream.received().is_empty());
    assert_eq!(
        client.plain("GET /mcpx").send().await.status(),
        405,
        "another path is open, and this one is the app's to know"
    );
}

#[tokio::test]
async fn a_guarded_method_is_reached_by_its_request_line_only() {
    let Scene { upstream, gate: _gate, client } = scene().await;
    refused(
        client.plain("DELETE /api/orders/o1").header("Idempotency-Key", "k"),
        403,
        "forbidden",
        "as it is",
    )
    .await;
    let read = || client.plain("GET /api/orders/o1");
    let refund = || client.plain(REFUND).header("Idempotency-Key", "k1");
    let form = |ask: Ask, body: &str| {
        ask.header("Content-Type", "application/x-www-form-urlencoded").body(body.to_owned())
    };
    for name in [
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X_HTTP_METHOD_OVERRIDE",
        "x.http.method.override",
    ] {
        refused(read().header(name, "DELETE"), 400, "method_override", name).await;
        refused(refund().header(name, "DELETE"), 400, "method_override", name).await;
    }
    for query in
        ["_method=DELETE", "_method[]=DELETE", "a=1&%5Fmethod=DELETE", ".method=DELETE", "a=1;_METHOD=DELETE"]
    {
        refused(client.plain(&format!("GET /api/orders/o1?{query}")), 400, "method_override", query).await;
        refused(form(client.plain("POST /api/notes"), query), 400, "method_override", query).await;
        refused(form(refund(), query), 400, "method_override", query).await;
        // A read's body is looked into as well: there are backends that look there too.
        refused(form(read(), query), 400, "method_override", query).await;
    }
    for body in [json!({ "_method": "DELETE" }), json!({ "a": 1, "_METHOD": "DELETE" })] {
        refused(client.plain("POST /api/notes").json(&body), 400, "method_override", "JSON, unclaimed").await;
        refused(refund().json(&body), 400, "method_override", "JSON, claimed").await;
    }
    let parts = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n\
                 --b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n";
    for ask in [client.plain("POST /api/notes"), refund(), read()] {
        let ask = ask.header("Content-Type", "multipart/form-data; boundary=b").body(parts);
        refused(ask, 400, "method_override", "multipart").await;
    }
    // Rack takes it for a form.
    refused(client.plain("POST /api/notes").body("_method=DELETE"), 415, "unsupported_media_type", "no type")
        .await;
    assert!(upstream.received().is_empty(), "{:?}", upstream.received());
}

#[tokio::test]
async fn a_key_is_one_header_in_one_spelling() {
    let Scene { upstream, gate, client } = scene().await;
    let refund = |lines: &[&str]| {
        let lines =
            [&["Content-Type: application/json", "Content-Length: 2", "Connection: close"][..], lines]
                .concat();
        head(REFUND, &lines) + "{}"
    };
    for (lines, expected) in [
        (&["Idempotency-Key: k1", "Idempotency-Key: k2"][..], "400"),
        (&["Idempotency-Key: k1", "Idempotency-Key: k1"], "400"),
        (&["Idempotency-Key: k1", "idempotency-key: \"k1\""], "400"),
        (&["Idempotency_Key: k1"], "400"),
        (&["Idempotency.Key: k1"], "400"),
        (&["Idempotency-Key:"], "400"),
        (&["Idempotency-Key: \"\""], "400"),
        (&["Idempotency-Key: \"k1"], "400"),
        (&["Idempotency-Key: k1\u{e9}"], "400"),
        (&["Idempotency-Key : k1"], "400"),
        (&["Idempotency-Key: k1\r\n folded"], "400"),
        (&[" Idempotency-Key: k1"], "400"),
    ] {
        let all = answers(gate.address(), refund(lines).as_bytes()).await;
        assert_eq!(statuses(&all), [expected], "{lines:?}");
    }
    let long = format!("Idempotency-Key: {}", "k".repeat(129));
    assert_eq!(statuses(&answers(gate.address(), refund(&[&long]).as_bytes()).await), ["400"]);
    assert!(upstream.received().is_empty());
    assert_eq!(gate.claims().await.len(), 0);
    // A key that a backend might take for another one does not get there.
    let ask =
        client.plain(REFUND).header("Idempotency-Key", "k1").header("Idempotency_Key", "k2").json(&json!({}));
    assert_eq!(ask.header("IDEMPOTENCY.KEY", "k3").send().await.status(), 200);
    let received = &upstream.received()[0].http;
    let keys: Vec<_> =
        received.headers.iter().filter(|(name, _)| name.to_ascii_lowercase().contains("key")).collect();
    assert_eq!(keys, [&("idempotency-key".to_owned(), "k1".to_owned())]);
}

#[tokio::test]
async fn an_empty_key_is_no_leave_to_run_without_one() {
    let Scene { upstream, gate: _gate, client } = scene().await;
    for key in ["", "\"\"", "\" \""] {
        let ask = client.plain("POST /api/notes").header("Idempotency-Key", key).json(&json!({}));
        refused(ask, 400, "idempotency_key_required", key).await;
    }
    assert!(upstream.received().is_empty(), "{:?}", upstream.received());
}

#[tokio::test]
async fn what_a_body_was_read_as_goes_along_with_it_whatever_connection_says() {
    let Scene { upstream, gate: _gate, client } = scene().await;
    let ask = client.plain("POST /api/notes").header("Connection", "Content-Type, Content-Encoding");
    let ask = ask.header("Content-Type", "application/octet-stream").header("Content-Encoding", "br");
    assert_eq!(ask.body("_method=DELETE".to_owned()).send().await.status(), 200);
    let received = &upstream.received()[0].http;
    assert_eq!(received.header("content-type"), Some("application/octet-stream"));
    assert_eq!(received.header("content-encoding"), Some("br"));
}

#[tokio::test]
async fn no_header_of_a_plain_request_passes_for_the_gates_own_or_leads_elsewhere() {
    let Scene { upstream, gate: _gate, client } = scene().await;
    let names = [
        "X-Oncegate-Tenant",
        "X_Oncegate_Tenant",
        "X.Oncegate.User",
        "X~Oncegate~Tenant",
        "X-Oncegate-Scopes",
        "X-Original-URL",
        "X-Rewrite-Url",
        "X-Forwarded-Host",
        "X-Forwarded-Prefix",
        "X-Forwarded-Path",
        "X-Forwarded-Uri",
        "X-Forwarded-Port",
        "X-Original-Uri",
        "X-Original-Path",
        "X-Script-Name",
        "X-Sendfile-Type",
        "X-Accel-Mapping",
        "Forwarded",
        "Content_Type",
        "Content_Length",
        "Transfer_Encoding",
        "Cookie",
    ];
    for line in ["GET /api/things", "POST /api/notes"] {
        let ask = names.iter().fold(client.plain(line), |ask, name| ask.header(name, "/evil"));
        assert_eq!(
            ask.header("Connection", "X-Real").header("X-Real", "/evil").send().await.status(),
            200,
            "{line}"
        );
    }
    for received in upstream.received() {
        for (name, value) in &received.http.headers {
            assert!(!value.contains("evil"), "{name}: {value}");
        }
        assert_eq!(received.http.header("x-oncegate-tenant"), Some("acme"));
    }
}

#[tokio::test]
async fn a_tenant_of_somebody_elses_is_refused_wherever_it_stands() {
    let Scene { upstream, gate: _gate, client } = scene().await;
    let foreign = (403, "foreign_tenant");
    let form = "application/x-www-form-urlencoded";
    let parts = |tenant: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"tenant_id\"\r\n\r\n{tenant}\r\n--b--\r\n")
    };
    let note = || client.plain("POST /api/notes");
    let asks = [
        client.plain("POST /api/tenants/globex/notes"),
        client.plain("POST /api/tenants/ACME/notes"),
        client.plain("GET /api/things?tenant_id=globex"),
        client.plain("GET /api/things?tenant_id=acme&tenant_id=globex"),
        client.plain("GET /api/things?tenant.id=globex"),
        client.plain("GET /api/things?Tenant_ID=globex"),
        client.plain("GET /api/things?tenant_id[]=globex"),
        client.plain("GET /api/things?a=1;tenant_id=globex"),
        client.plain("GET /api/things?tenant_id="),
        note().json(&json!({ "tenant_id": "globex" })),
        note().json(&json!({ "TENANT_ID": "globex", "tenant_id": "acme" })),
        note().json(&json!({ "tenant_id": ["acme"] })),
        note().json(&json!({ "tenant_id": null })),
        note().json(&json!([{ "tenant_id": "globex" }])),
        note().header("Content-Type", form).body("tenant_id=globex"),
        note().header("Content-Type", form).body("tenant+id=globex"),
        note().header("Content-Type", "multipart/form-data; boundary=b").body(parts("globex")),
        note().header("Content-Type", "multipart/form-data; boundary=b").body(parts("acm")),
        note()
            .header("Content-Type", "multipart/form-data; boundary=b")
            .header("Idempotency-Key", "k")
            .body(parts("globex")),
    ];
    for (at, ask) in asks.into_iter().enumerate() {
        let text = ask.text();
        assert_eq!(word(&ask.send().await), (foreign.0, foreign.1.to_owned()), "{at}: {text}");
    }
    assert!(upstream.received().is_empty());
    let own = [
        client.plain("POST /api/tenants/acme/notes"),
        client.plain("GET /api/things?tenant_id=acme"),
        note().json(&json!({ "tenant_id": "acme" })),
        note().header("Content-Type", form).body("tenant_id=acme"),
        note().header("Content-Type", "multipart/form-data; boundary=b").body(parts("acme")),
    ];
    for ask in own {
        assert_eq!(ask.send().await.status(), 200);
    }
    assert_eq!(upstream.received().len(), 5);
    assert!(POLICY.contains("tenant_id"));
}
