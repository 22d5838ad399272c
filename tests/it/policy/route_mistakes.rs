//! What the policy says of routes that cannot be used, or may not be meant, word for word.

use super::mistakes::{check, mistakes, warnings};

/// The one mistake in a route that reads, with these lines.
#[track_caller]
fn check_route(lines: &str, expected: &str) {
    check(&format!("[routes.r]\neffect = \"read\"\n{lines}\n"), expected);
}

const HELP: &str = "write it as requests have it: \"/api/orders/{order}/refunds\"";

#[test]
fn a_route_has_a_method_and_a_path() {
    check_route("path = \"/a\"", "p.toml:1:1: a route needs a method; say which: method = \"POST\"");
    check_route(
        "method = []\npath = \"/a\"",
        "p.toml:3:1: a route needs a method; say which: method = \"POST\"",
    );
    check_route("method = \"GET\"", &format!("p.toml:1:1: a route needs a path; {HELP}"));
    check_route(
        "method = 3\npath = \"/a\"",
        "p.toml:3:10: wrong type: integer 3, where a method like \"POST\", or a list of them, is due",
    );
    check(
        "[routes.r]\nmethod = \"GET\"\npath = \"/a\"\n",
        "p.toml:1:1: the key \"effect\" is missing; it may be \"read\", \"mutation\" or \"deny\"",
    );
}

#[test]
fn a_method_is_one_that_requests_have() {
    for (method, fault) in [
        ("\"post\"", "no request has the method \"post\": methods have capitals; write \"POST\""),
        ("[\"GET\", \"Post\"]", "no request has the method \"Post\": methods have capitals; write \"POST\""),
        ("\"\"", "\"\" is no method; the usual ones are GET, POST, PUT, PATCH and DELETE"),
        ("\"GET POST\"", "\"GET POST\" is no method; the usual ones are GET, POST, PUT, PATCH and DELETE"),
        ("\"*\"", "\"*\" is no method; the usual ones are GET, POST, PUT, PATCH and DELETE"),
        (
            "\"TRACE\"",
            "the gate serves no TRACE; it would open a tunnel, or show a client what the gate tells the app",
        ),
        ("[\"GET\", \"GET\"]", "\"GET\" stands in it twice; once is enough"),
    ] {
        check_route(&format!("method = {method}\npath = \"/a\""), &format!("p.toml:3:1: {fault}"));
    }
}

#[test]
fn a_path_is_one_that_requests_can_have() {
    for (path, fault) in [
        ("", "it is empty"),
        ("a", "it does not begin with a slash"),
        ("/a//b", "two slashes stand side by side"),
        ("/a/../b", "a segment has nothing but dots or blanks"),
        ("/a b", "a character must be escaped"),
        ("/%61", "a character is escaped that needs no escape"),
        ("/a;b", "a semicolon or a backslash stands in it"),
        ("/a?b=c", "a query is no part of a path: what is asked for by it is one operation"),
        ("/a/{b}c", "a parameter is a whole segment, between braces: {order}"),
        ("/a/{b}.json", "a parameter is a whole segment, between braces: {order}"),
        ("/a/{}", "a parameter's name has letters, digits and underscores only"),
        ("/a/{1}", "a parameter's name has letters, digits and underscores only"),
        ("/a/{b-c}", "a parameter's name has letters, digits and underscores only"),
        ("/{a}/{a}", "{a} stands in it twice"),
        ("/a/*/b", "a * stands for the whole rest, as the last segment"),
        ("/a/*/", "a * stands for the whole rest, as the last segment"),
        ("/a/b*", "a * stands for the whole rest, as the last segment"),
    ] {
        check_route(
            &format!("method = \"GET\"\npath = \"{path}\""),
            &format!("p.toml:4:1: \"{path}\" is no path of a route: {fault}; {HELP}"),
        );
    }
}

#[test]
fn a_mutation_cannot_be_a_whole_prefix() {
    check(
        "[routes.r]\nmethod = \"POST\"\npath = \"/a/*\"\neffect = \"mutation\"\nscopes = [\"s\"]\n",
        "p.toml:3:1: a mutation cannot be a whole prefix; name each of its paths; a prefix can be opened for reads, or denied",
    );
}

#[test]
fn two_routes_for_one_request_are_a_mistake_that_names_both_places() {
    let one = "[routes.one]\nmethod = [\"GET\", \"POST\"]\npath = \"/a/{x}\"\neffect = \"deny\"\n";
    let other = "[routes.other]\nmethod = \"POST\"\npath = \"/a/{y}\"\neffect = \"deny\"\n";
    assert_eq!(
        mistakes(&[("a.toml", one), ("b.toml", other)]),
        ["b.toml:3:1: \"other\" and \"one\" at a.toml:1:9 are both POST /a/{y}; \
          a request is one operation: take the method, or the route, out of one of them"],
    );
    let put = other.replace("POST", "PUT");
    let slash = other.replace("/a/{y}", "/a/{y}/");
    let literal = other.replace("/a/{y}", "/a/y");
    let prefix = other.replace("/a/{y}", "/a/*");
    for apart in [put, slash, literal, prefix] {
        assert_eq!(mistakes(&[("a.toml", one), ("b.toml", &apart)]), [""; 0], "{apart}");
    }
}

#[test]
fn keys_that_mean_nothing_to_a_plain_request_are_mistakes() {
    for (line, kinds) in [
        ("deny_as = \"challenge\"", "tools and methods"),
        ("key_argument = \"k\"", "tools and methods"),
        ("reasons = { a = \"b\" }", "tools"),
        ("forward_argument = true", "tools and methods"),
        ("on_tool_error = \"keep\"", "tools"),
        ("destructive = true", "tools"),
        ("timeout = \"5m\"", "jobs"),
    ] {
        let key = line.split(' ').next().unwrap_or_default();
        check(
            &format!(
                "[routes.r]\nmethod = \"PUT\"\npath = \"/a\"\neffect = \"mutation\"\nscopes = [\"s\"]\n{line}\n"
            ),
            &format!("p.toml:6:1: \"{key}\" has a meaning for {kinds} only"),
        );
    }
    check_route(
        "method = \"GET\"\npath = \"/a\"\nkey = \"optional\"",
        "p.toml:5:1: \"key\" has no meaning with effect = \"read\"",
    );
    check(
        "[tools.t]\neffect = \"read\"\npath = \"/a\"\n",
        "p.toml:3:1: \"path\" has a meaning for routes only",
    );
}

#[test]
fn a_read_that_lets_changes_through_is_warned_of() {
    let read = |method: &str, path: &str| {
        warnings(&format!("[routes.r]\neffect = \"read\"\nmethod = \"{method}\"\npath = \"{path}\"\n"))
    };
    assert_eq!(
        read("DELETE", "/a/{b}"),
        ["p.toml:4:1: \"r\" is a read by DELETE: it runs as often as it is asked for; \
          say effect = \"mutation\" if it changes something (warning)"]
    );
    assert_eq!(
        read("POST", "/a/*"),
        [
            "p.toml:4:1: \"r\" lets POST through to whatever stands under /a/*; name the paths that only read, one by one (warning)"
        ]
    );
    for (method, path) in [("POST", "/a/search"), ("GET", "/a/*"), ("OPTIONS", "/a/*"), ("HEAD", "/a")] {
        assert_eq!(read(method, path), [""; 0], "{method} {path}");
    }
}

#[test]
fn two_paths_that_many_apps_take_for_one_and_are_ruled_differently_are_warned_of() {
    let both = |path: &str, effect: &str| {
        warnings(&format!(
            "[routes.a]\nmethod = \"GET\"\npath = \"/a/{{x}}\"\neffect = \"deny\"\n\
             [routes.b]\nmethod = \"GET\"\npath = \"{path}\"\neffect = \"{effect}\"\n"
        ))
    };
    let told = |path: &str| {
        format!(
            "p.toml:7:1: many apps take {path} for /a/{{x}}, which is ruled otherwise at p.toml:1:9; \
             name the one that the app means, and leave the other out (warning)"
        )
    };
    for path in ["/A/{x}", "/a/{y}/"] {
        assert_eq!(both(path, "read"), [told(path)]);
        assert_eq!(both(path, "deny"), [""; 0]);
    }
    assert_eq!(both("/a/x", "read"), [""; 0]);
}

#[test]
fn what_became_of_a_plain_request_is_asked_by_get_of_what_its_claim_has() {
    let route = |lines: &str| {
        format!(
            "[routes.r]\nmethod = \"PUT\"\npath = \"/a/{{order}}\"\neffect = \"mutation\"\nscopes = [\"s\"]\nredact = [\"card\"]\n{lines}\n"
        )
    };
    let ask = |what: &str| {
        route(&format!(
            "reconcile = {{ {what}, completed = {{ state = [\"done\"] }}, absent_status = [404], absent = {{ code = \"none\" }} }}"
        ))
    };
    assert_eq!(
        mistakes(&[(
            "p.toml",
            &ask("get = \"/asked?key={key}&order={args.path.order}&n={args.body.amount}\"")
        )]),
        [""; 0]
    );
    for part in ["path", "query", "body"] {
        check(
            &ask(&format!("get = \"/asked?key={{key}}&card={{args.{part}.card}}\"")),
            &format!(
                "p.toml:7:1: {{args.{part}.card}} is masked by \"redact\", so the gate does not have it to ask with; ask by {{key}} or {{forwarded_key}}"
            ),
        );
    }
    let told = mistakes(&[("p.toml", &ask("tool = \"get_refund\""))]);
    let said = "p.toml:7:1: what became of a plain request is asked by get; \
                ask one of the app's own paths: get = \"/internal/refunds?key={forwarded_key}\"";
    assert!(told.iter().any(|line| line == said), "{told:#?}");
}

#[test]
fn a_literal_that_looks_like_a_parameter_is_warned_of() {
    let found = warnings("[routes.r]\nmethod = \"GET\"\npath = \"/o/:id\"\neffect = \"read\"\n");
    let told = found.first().map(ToString::to_string);
    let expected = "p.toml:3:1: \":id\" is a literal: only a request with that very word has this path; \
                    a parameter is written {id} (warning)";
    assert_eq!(told.as_deref(), Some(expected));
}
