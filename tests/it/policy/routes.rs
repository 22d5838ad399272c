//! Which operation a plain request is, and what is wrong with a route.

use oncegate::domain::policy::{KeyRule, Kind, NormalPath, Operation, Policy, Routed};

use super::policy;

/// A shop: most of it is read through one open prefix, some of it is guarded.
pub(super) const SHOP: &str = r#"
[routes.refund]
method = "POST"
path = "/api/orders/{order}/refunds"
effect = "mutation"
scopes = ["refund"]
[routes.order]
method = "GET"
path = "/api/orders/{order}"
effect = "read"
[routes.cancel]
method = "DELETE"
path = "/api/orders/{id}"
effect = "mutation"
scopes = ["cancel"]
[routes.search]
method = ["GET", "POST"]
path = "/api/orders/search"
effect = "read"
[routes.unsubscribe]
method = "GET"
path = "/api/unsubscribe"
effect = "mutation"
scopes = ["mail"]
key = "optional"
[routes.admin]
method = "GET"
path = "/api/admin/*"
effect = "deny"
[routes.prices]
method = "PUT"
path = "/api/prices/"
effect = "mutation"
scopes = ["prices"]
[routes.open]
method = "GET"
path = "/api/*"
effect = "read"
[routes.home]
method = "GET"
path = "/"
effect = "read"
[tools.look]
effect = "read"
"#;

/// What a request comes to: a route's name with its parameters, or why it is none.
pub(super) fn routed(policy: &Policy, request: &str) -> String {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let path = match NormalPath::parse(path) {
        Ok(path) => path,
        Err(fault) => return format!("refused: {fault}"),
    };
    match policy.route(method, &path) {
        Routed::Matched { operation, parameters } => {
            let told = parameters.iter().map(|(name, value)| format!(" {name}={value}"));
            operation.name().to_owned() + &told.collect::<String>()
        }
        Routed::OtherMethod { allow } => format!("only {allow}"),
        Routed::Lookalike => "lookalike".to_owned(),
        Routed::Unmatched => "unmatched".to_owned(),
    }
}

#[track_caller]
fn check(requests: &[(&str, &str)]) {
    let policy = policy(SHOP);
    for (request, expected) in requests {
        assert_eq!(routed(&policy, request), *expected, "{request}");
    }
}

#[test]
fn a_request_is_the_route_whose_path_says_it_most_narrowly() {
    check(&[
        ("POST /api/orders/o1/refunds", "refund order=o1"),
        ("GET /api/orders/o1", "order order=o1"),
        ("DELETE /api/orders/o1", "cancel id=o1"),
        ("GET /api/orders/search", "search"),
        ("GET /api/anything/else", "open"),
        ("GET /api/anything/", "open"),
        ("GET /api/admin/users/1", "admin"),
        ("GET /", "home"),
        ("PUT /api/prices/", "prices"),
        ("GET /api/orders/a%20b%C3%BC,%2Cc", "order order=a bü,,c"),
        ("GET /other", "unmatched"),
        ("GET /api", "unmatched"),
        ("GET /api/", "unmatched"),
    ]);
}

#[test]
fn a_path_is_its_own_routes_whatever_the_method() {
    check(&[
        ("PUT /api/orders/o1/refunds", "only POST"),
        ("GET /api/orders/o1/refunds", "only POST"),
        ("PATCH /api/orders/o1", "only DELETE, GET, HEAD"),
        ("DELETE /api/orders/search", "only GET, HEAD, POST"),
        ("post /api/orders/o1/refunds", "only POST"),
        ("GET /api/prices/", "only PUT"),
        ("POST /api/admin/users", "unmatched"),
    ]);
}

#[test]
fn what_reads_by_get_answers_head_and_what_changes_something_does_not() {
    check(&[
        ("HEAD /api/orders/o1", "order order=o1"),
        ("HEAD /api/anything", "open"),
        ("HEAD /api/unsubscribe", "only GET"),
        ("HEAD /api/admin/users", "admin"),
        ("HEAD /api/orders/o1/refunds", "only POST"),
    ]);
    let named = policy(
        "[routes.a]\nmethod = \"GET\"\npath = \"/a\"\neffect = \"read\"\n[routes.b]\nmethod = \"HEAD\"\npath = \"/a\"\neffect = \"deny\"\n",
    );
    assert_eq!(routed(&named, "HEAD /a"), "b");
}

#[test]
fn a_path_that_is_not_normal_is_refused() {
    check(&[
        ("GET //api/x", "refused: two slashes stand side by side"),
        ("GET /api//x", "refused: two slashes stand side by side"),
        ("GET /api/x//", "refused: two slashes stand side by side"),
        ("GET //", "refused: two slashes stand side by side"),
        ("GET /api/./x", "refused: a segment has nothing but dots or blanks"),
        ("GET /api/../x", "refused: a segment has nothing but dots or blanks"),
        ("GET /api/...", "refused: a segment has nothing but dots or blanks"),
        ("GET /api/%20", "refused: a segment has nothing but dots or blanks"),
        ("GET /api/%2e%2e/x", "refused: an escape is not written in capitals"),
        ("GET /api/%2E%2E/x", "refused: a slash, a backslash, a dot or a semicolon is escaped"),
        ("GET /api%2Fx", "refused: a slash, a backslash, a dot or a semicolon is escaped"),
        ("GET /api/x%5Cy", "refused: a slash, a backslash, a dot or a semicolon is escaped"),
        ("GET /api/x%3By", "refused: a slash, a backslash, a dot or a semicolon is escaped"),
        ("GET /api/%EF%BC%8E%EF%BC%8E/x", "refused: a slash, a backslash, a dot or a semicolon is escaped"),
        ("GET /api/x;y=1", "refused: a semicolon or a backslash stands in it"),
        ("GET /api/x\\y", "refused: a semicolon or a backslash stands in it"),
        ("GET /api/%61", "refused: a character is escaped that needs no escape"),
        ("GET /api/%5Fx", "refused: a character is escaped that needs no escape"),
        ("GET /api/%c3%bc", "refused: an escape is not written in capitals"),
        ("GET /api/%C3", "refused: what its escapes stand for is not UTF-8"),
        ("GET /api/%C0%AE", "refused: what its escapes stand for is not UTF-8"),
        ("GET /api/%00", "refused: a control character is escaped"),
        ("GET /api/x%0D%0A", "refused: a control character is escaped"),
        ("GET /api/%C2%85", "refused: a control character is escaped"),
        ("GET /api/%", "refused: a percent sign begins no escape"),
        ("GET /api/%4", "refused: a percent sign begins no escape"),
        ("GET /api/%G1", "refused: a percent sign begins no escape"),
        ("GET /api/%2561", "refused: an escape is itself escaped"),
        ("GET /api/%252e%252e", "refused: an escape is itself escaped"),
        ("GET /api/x y", "refused: a character must be escaped"),
        ("GET /api/ü", "refused: a character must be escaped"),
        ("GET api/x", "refused: it does not begin with a slash"),
        ("OPTIONS *", "refused: it does not begin with a slash"),
        ("GET http://other/api/x", "refused: it does not begin with a slash"),
        ("GET /api/100%25", "open"),
        ("GET /api/a:b@c+d=e&f'(g)*$!", "open"),
    ]);
}

#[test]
fn what_some_app_takes_for_a_narrower_route_is_nobodys() {
    check(&[
        ("GET /api/Unsubscribe", "lookalike"),
        ("GET /api/UNSUBSCRIBE", "lookalike"),
        ("GET /api/unsubscribe/", "lookalike"),
        ("GET /api/unsubscribe.json", "lookalike"),
        ("GET /api/unsubscribe.", "lookalike"),
        ("GET /api/unsubscribe%20", "lookalike"),
        ("GET /api/un%C5%BFubscribe", "lookalike"),
        ("GET /api/%EF%BD%95nsubscribe", "lookalike"),
        ("GET /api/orders/Search", "lookalike"),
        ("DELETE /api/orders/SEARCH", "lookalike"),
        ("GET /api/Orders/o1/Refunds", "lookalike"),
        ("GET /api/orders/o1/refunds/", "lookalike"),
        ("GET /api/orders/o1/", "lookalike"),
        ("GET /api/Admin/users", "lookalike"),
        ("PUT /api/prices", "lookalike"),
        ("GET /api/unsubscribe%3Fa", "lookalike"),
        ("GET /api/unsubscribe%23", "lookalike"),
        ("GET /api/unsubscribe&a=1", "lookalike"),
        ("GET /api/Unsubscribe%26", "lookalike"),
        ("GET /api/unsubscribe&a/b/c", "lookalike"),
        ("GET /api/orders/o1/refunds%3F/x", "lookalike"),
        ("GET /api/a%3Funsubscribe", "open"),
        ("GET /api/a&b", "open"),
        ("GET /api/unsubscribes", "open"),
        ("GET /api/un-subscribe", "open"),
    ]);
    let scripts = policy(&format!(
        "{SHOP}\n[routes.files]\nmethod = \"GET\"\npath = \"/*\"\neffect = \"read\"\n[routes.pay]\nmethod = \"POST\"\npath = \"/pay.php\"\neffect = \"mutation\"\nscopes = [\"pay\"]\n"
    ));
    for (request, expected) in [
        ("GET /index.php/api/unsubscribe", "lookalike"),
        ("GET /sub/Index.PHP/api/orders/o1/refunds", "lookalike"),
        ("GET /pay.php/anything/else", "lookalike"),
        ("GET /PAY.php", "lookalike"),
        ("GET /API/unsubscribe", "lookalike"),
        ("GET /index.php/other", "files"),
        ("GET /logo.png", "files"),
    ] {
        assert_eq!(routed(&scripts, request), expected, "{request}");
    }
}

#[test]
fn a_path_that_some_app_takes_for_another_is_known_as_such() {
    let taken = |path: &str, other: &str| NormalPath::parse(path).expect("a normal path").is_taken_for(other);
    for path in [
        "/MCP",
        "/mcp/",
        "/Mcp/",
        "/mcp.json",
        "/mcp%20",
        "/index.php/mcp",
        "/mc%EF%BD%90",
        "/mcp%3Fx",
        "/mcp&x",
    ] {
        assert!(taken(path, "/mcp"), "{path}");
    }
    for path in ["/mcp", "/mcps", "/mcp/x", "/x/mcp", "/"] {
        assert!(!taken(path, "/mcp"), "{path}");
    }
    assert!(taken("/run.cgi/mcp", "/run.cgi"));
    assert!(taken("/a", "/a/") && taken("/a/", "/a") && !taken("/", "/"));
}

#[test]
fn a_path_that_two_routes_say_narrowly_each_in_its_own_place_is_nobodys() {
    let crossed = policy(
        "[routes.a]\nmethod = \"GET\"\npath = \"/{tenant}/refunds\"\neffect = \"deny\"\n\
         [routes.b]\nmethod = \"GET\"\npath = \"/api/{what}\"\neffect = \"read\"\n",
    );
    assert_eq!(routed(&crossed, "GET /api/refunds"), "lookalike");
    assert_eq!(routed(&crossed, "GET /api/orders"), "b what=orders");
}

#[test]
fn what_looks_alike_and_is_named_word_for_word_is_its_own() {
    let both = "[routes.a]\nmethod = \"GET\"\npath = \"/a\"\neffect = \"deny\"\n\
                [routes.b]\nmethod = \"GET\"\npath = \"/a.json\"\neffect = \"read\"\n\
                [routes.c]\nmethod = \"GET\"\npath = \"/a/\"\neffect = \"read\"\n";
    assert_eq!(routed(&policy(both), "GET /a.json"), "b");
    assert_eq!(routed(&policy(both), "GET /a/"), "c");
    assert_eq!(routed(&policy(both), "GET /a"), "a");
}

#[test]
fn a_route_has_what_its_table_says() {
    let policy = policy(SHOP);
    assert!(policy.has_routes());
    let route = |name| {
        policy.named(Kind::Route, name).and_then(|one: &std::sync::Arc<Operation>| one.route().cloned())
    };
    assert_eq!(route("refund").map(|one| one.key()), Some(KeyRule::Required));
    assert_eq!(route("unsubscribe").map(|one| one.key()), Some(KeyRule::Optional));
    let search = route("search").expect("a route");
    assert_eq!(search.methods().collect::<Vec<_>>(), ["GET", "POST"]);
    assert_eq!(search.template().as_str(), "/api/orders/search");
    assert!(policy.named(Kind::Tool, "look").is_some_and(|tool| tool.route().is_none()));
    assert!(!super::policy("[tools.look]\neffect = \"read\"\n").has_routes());
}
