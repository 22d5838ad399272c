//! Names of fields that some backend takes for another, in every place where fields stand.

use oncegate::domain::refusal::Refusal;
use oncegate::http::overrides::refuse_override;
use oncegate::http::query::Query;

use super::{FORM, check, headers, read, target};

/// Field names, percent-escaped, by which PHP, Rack, qs, .NET or someone else takes another method.
const METHOD: [&str; 28] = [
    "_method",
    "_METHOD",
    "_Method",
    "%5Fmethod",
    "%5f%6d%65thod",
    "_method%5B%5D",
    "_method[]",
    "_method[0]",
    "_method[",
    "[_method]",
    "[[_method",
    ".method",
    "%2Emethod",
    "%5Bmethod",
    "+_method",
    "%20%20_method",
    "%09_method",
    "+method",
    "_method+",
    "_method%00",
    "_method%00[x]",
    "%00_method",
    "%u005Fmethod",
    "%255Fmethod",
    "?_method",
    "X-HTTP-Method-Override",
    "x-http-method",
    "X-Method-Override",
];

/// Names that are nobody's override.
const OTHERS: [&str; 8] =
    ["method", "payment_method", "_methods", "__method", "x_method", "a[_method]", "_meth", "order"];

#[test]
fn a_method_in_the_query_is_found_however_it_is_written() {
    for name in METHOD {
        for query in [
            format!("{name}=DELETE"),
            name.to_owned(),
            format!("a=1&{name}=DELETE&b=2"),
            format!("a=1;{name}=DELETE"),
            format!("&&{name}=DELETE"),
        ] {
            let met = refuse_override(&target(&format!("/api/orders?{query}")), &headers(&[]));
            assert_eq!(met, Err(Refusal::MethodOverride), "{query}");
        }
    }
    for name in OTHERS {
        assert_eq!(refuse_override(&target(&format!("/api?{name}=DELETE")), &headers(&[])), Ok(()), "{name}");
    }
    assert_eq!(refuse_override(&target("/_method"), &headers(&[])), Ok(()));
    assert_eq!(refuse_override(&target("/api?a=_method"), &headers(&[])), Ok(()));
}

#[test]
fn a_method_in_a_form_is_found_however_it_is_written() {
    for name in METHOD.iter().filter(|name| !name.contains("%u")) {
        for body in [
            format!("{name}=DELETE"),
            (*name).to_owned(),
            format!("a=1&{name}=DELETE"),
            format!("a=1;{name}=D"),
        ] {
            check(FORM, body, "MethodOverride");
        }
    }
    check(FORM, "%u005Fmethod=DELETE", "unreadable: a \"%\" in it begins no escape");
    for name in OTHERS {
        assert!(read(FORM, format!("{name}=DELETE")).is_ok(), "{name}");
    }
}

#[test]
fn a_method_among_the_members_of_a_json_body_is_found() {
    for body in [
        r#"{"_method":"DELETE"}"#,
        r#"{"a":1,"_METHOD":"DELETE"}"#,
        r#"{"\u005fmethod":"DELETE"}"#,
        r#"{"_method\u0000":"DELETE"}"#,
        r#"{"_method[]":["DELETE"]}"#,
        r#"[{"_method":"DELETE"}]"#,
        r#"{"X-HTTP-Method-Override":"DELETE"}"#,
        "{\"_method\":null}",
    ] {
        check("application/json", body, "MethodOverride");
    }
    for body in [r#"{"method":"card"}"#, r#"{"a":{"_method":"card"}}"#, r#""_method""#, r#"["_method"]"#] {
        assert!(read("application/json", body).is_ok(), "{body}");
    }
}

#[test]
fn a_method_in_a_header_is_found_whatever_stands_between_its_words() {
    for name in [
        "X-HTTP-Method-Override",
        "X_HTTP_METHOD_OVERRIDE",
        "X.HTTP.Method.Override",
        "x-http~method-override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X-Original-Method",
        "X-Forwarded-Method",
    ] {
        let met = refuse_override(&target("/api"), &headers(&[(name, "DELETE")]));
        assert_eq!(met, Err(Refusal::MethodOverride), "{name}");
        let met = refuse_override(&target("/api"), &headers(&[(name, "")]));
        assert_eq!(met, Err(Refusal::MethodOverride), "{name}, empty");
    }
    for name in ["Method", "Access-Control-Request-Method", "X-Payment-Method"] {
        assert_eq!(refuse_override(&target("/api"), &headers(&[(name, "DELETE")])), Ok(()), "{name}");
    }
}

#[test]
fn every_value_that_some_backend_takes_for_a_tenants_is_told() {
    let values = |query: &str| Query::of(&target(&format!("/api?{query}"))).values("tenant_id");
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(values("order=1"), []);
    assert_eq!(values("tenant_id=acme"), [text("acme")]);
    assert_eq!(values("tenant_id"), [text("")]);
    assert_eq!(values("tenant_id=acme&tenant_id=globex"), [text("acme"), text("globex")]);
    assert_eq!(values("Tenant.ID=globex"), [text("globex")]);
    assert_eq!(values("tenant+id=globex&+tenant_id=initech"), [text("globex"), text("initech")]);
    assert_eq!(values("tenant[id=globex"), [text("globex")]);
    assert_eq!(values("tenant_id[]=globex"), [text("globex")]);
    assert_eq!(values("%74enant_id=glo%62ex"), [text("globex")]);
    assert_eq!(values("tenant_id=a+b"), [text("a b"), text("a+b")], "some take a plus for what it is");
    assert_eq!(values("tenant_id=%ff"), [None]);
    // Cut at `;` the first is the actor's, and the second is not.
    assert_eq!(
        values("tenant_id=acme;tenant_id=globex"),
        [text("acme;tenant_id=globex"), text("acme"), text("globex")]
    );
    assert_eq!(values("order=1;tenant_id=globex"), [text("globex")]);
    let asked_otherwise = Query::of(&target("/api?tenant_id=acme")).values("Tenant.Id");
    assert_eq!(asked_otherwise, [text("acme")]);
}

#[test]
fn a_tenant_in_a_body_is_told_too() {
    let text = |text: &str| Some(text.to_owned());
    let values = |media: &str, body: &str| read(media, body).expect(body).values("tenant_id");
    let json = "application/json";
    assert_eq!(values(json, r#"{"tenant_id":"acme"}"#), [text("acme")]);
    assert_eq!(values(json, r#"{"tenant_id":7,"TENANT_ID":"8"}"#), [text("7"), text("8")]);
    assert_eq!(values(json, r#"[{"tenant_id":"globex"}]"#), [text("globex")]);
    for (body, what) in
        [("null", "null"), ("[\"acme\"]", "a list"), ("{}", "an object"), ("7.0", "no whole number")]
    {
        assert_eq!(values(json, &format!("{{\"tenant_id\":{body}}}")), [None], "{what}");
    }
    assert_eq!(values(FORM, "a=1&tenant.id=globex"), [text("globex")]);
    assert_eq!(values("text/plain", "tenant_id=globex"), []);
    let parts = "--b\r\nContent-Disposition: form-data; name=\"tenant id\"\r\n\r\nglobex\r\n--b--\r\n";
    assert_eq!(values("multipart/form-data; boundary=b", parts), [text("globex")]);
}

#[test]
fn a_form_of_as_many_fields_as_it_may_have_is_read() {
    let fields: Vec<String> = (0..10_000).map(|at| format!("N.{at}[]=value")).collect();
    let told = read(FORM, fields.join("&")).expect("it is a form").told().expect("it has fields");
    assert_eq!(told.get("N").and_then(|names| names.as_array()).map(<[_]>::len), Some(10_000));
}
