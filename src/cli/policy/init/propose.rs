//! A policy to edit, from a list of tools.
//!
//! Promises: it is a policy, whatever the tools are called and say of themselves: names are quoted, what stands in comments
//! cannot leave them. In doubt a tool is a mutation.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::cli::screen::plain;
use crate::domain::actor::is_scope;
use crate::domain::json::{Json, Object, folded};

/// The longest comment, in characters.
const LONGEST_COMMENT: usize = 100;
/// The longest name of an operation, in bytes.
const LONGEST_NAME: usize = 128;

/// What may name a tenant, and what may be private, by parts of names.
const TENANTS: [&str; 8] =
    ["tenant", "tenantid", "org", "orgid", "organization", "organizationid", "accountid", "workspaceid"];
const PRIVATE: [&str; 17] = [
    "password",
    "secret",
    "token",
    "apikey",
    "card",
    "cvc",
    "cvv",
    "iban",
    "ssn",
    "email",
    "phone",
    "address",
    "birth",
    "passport",
    "salary",
    "credential",
    "authorization",
];
/// What begins the name of a tool that only looks, for the scope that is proposed.
const LOOKS: [&str; 9] = ["get", "list", "search", "find", "read", "show", "fetch", "query", "describe"];

/// The policy.
pub(super) fn policy(from: &str, tools: &[Json]) -> String {
    let mut text = String::new();
    for line in [
        format!("A first policy for {from}, proposed from what the server says of its tools."),
        "Read every line: a server's word for what a tool does is its own, and scopes are guesses from names.".to_owned(),
        "Then: oncegate policy check, and write cases: oncegate policy test.".to_owned(),
    ] {
        comment(&mut text, &line);
    }
    let tenants = tenants(tools);
    if !tenants.is_empty() {
        text.push('\n');
        comment(
            &mut text,
            "Arguments that may name a tenant. Where they do, take them out: the token names it.",
        );
        let usual = std::iter::once("tenant_id");
        let own = tenants.iter().map(String::as_str).filter(|name| *name != "tenant_id");
        let names: Vec<String> = usual.chain(own).map(quoted).collect();
        line(&mut text, &format!("[defaults]\n# tenant_arguments = [{}]", names.join(", ")));
    }
    let mut seen = BTreeSet::new();
    for tool in tools {
        let name = tool.get("name").and_then(Json::as_str).unwrap_or_default();
        text.push('\n');
        if name.is_empty()
            || name.len() > LONGEST_NAME
            || name.trim() != name
            || name.chars().any(char::is_control)
        {
            comment(&mut text, &format!("No policy can name this tool: {name}"));
        } else if !seen.insert(name) {
            comment(&mut text, &format!("Listed twice: {name}"));
        } else {
            table(&mut text, name, tool);
        }
    }
    text
}

fn table(text: &mut String, name: &str, tool: &Json) {
    let description = tool.get("description").and_then(Json::as_str).unwrap_or_default();
    if let Some(first) = description.lines().find(|line| !line.trim().is_empty()) {
        comment(text, first.trim());
    }
    line(text, &format!("[tools.{}]", key(name)));
    let hint = |name: &str| tool.path(&["annotations", name]).and_then(Json::as_bool);
    let scope = scope_of(name, hint("readOnlyHint") == Some(true));
    if hint("readOnlyHint") == Some(true) {
        line(
            text,
            "effect = \"read\"            # the server's own word (readOnlyHint); does it change nothing?",
        );
        line(text, &format!("scopes = [{}]", quoted(&scope)));
    } else {
        let why = match hint("readOnlyHint") {
            Some(_) => "the server says that it changes something",
            None => "the server does not say; a read if it changes nothing",
        };
        line(text, &format!("effect = \"mutation\"        # {why}"));
        line(text, &format!("scopes = [{}]", quoted(&scope)));
        if hint("destructiveHint") == Some(true) {
            line(text, "destructive = true");
        }
        if hint("idempotentHint") == Some(true) {
            comment(
                text,
                "The server says that it may be called twice (idempotentHint). Where it honours the forwarded key:",
            );
            comment(
                text,
                "downstream = \"idempotent\", downstream_retention = \"24h\", forward_key = \"{tenant}/{tool}/{key}\"",
            );
        }
    }
    let members = tool.path(&["inputSchema", "properties"]).and_then(Json::as_object);
    let is_read = hint("readOnlyHint") == Some(true);
    for (name, _) in members.into_iter().flat_map(Object::iter) {
        let plain = plain_name(name);
        if plain == "idempotencykey" && !is_read {
            if name != "idempotency_key" && sound(name) {
                line(text, &format!("key_argument = {}", quoted(name)));
            }
            line(text, "forward_argument = true    # the tool asks for the key itself");
            break;
        }
    }
    let mut private = BTreeSet::new();
    for schema in ["inputSchema", "outputSchema"] {
        private_members(tool.get(schema), "", 4, &mut private);
    }
    if !private.is_empty() {
        let paths: Vec<String> = private.iter().map(|path| quoted(path)).collect();
        comment_long(text, &format!("redact = [{}]", paths.join(", ")));
    }
}

/// The members of a schema whose names look private, as paths.
fn private_members(schema: Option<&Json>, before: &str, depth: usize, found: &mut BTreeSet<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Json::as_object);
    for (name, inner) in properties.into_iter().flat_map(Object::iter) {
        if !sound(name) || name.contains('.') || found.len() >= 20 {
            continue;
        }
        let path = if before.is_empty() { name.to_owned() } else { format!("{before}.{name}") };
        let plain = plain_name(name);
        if plain != "idempotencykey" && PRIVATE.iter().any(|word| plain.contains(word)) {
            found.insert(path);
        } else {
            private_members(Some(inner), &path, depth, found);
            private_members(inner.get("items"), &path, depth, found);
        }
    }
}

/// The top members of any tool's arguments that look as if they named a tenant; none where they are the usual one.
fn tenants(tools: &[Json]) -> BTreeSet<String> {
    let members = tools.iter().filter_map(|tool| tool.path(&["inputSchema", "properties"])?.as_object());
    let names = members.flat_map(Object::iter).map(|(name, _)| name);
    let found: BTreeSet<String> = names
        .filter(|name| sound(name) && TENANTS.contains(&plain_name(name).as_str()))
        .map(str::to_owned)
        .collect();
    if found.iter().all(|name| name == "tenant_id") { BTreeSet::new() } else { found }
}

/// A scope from a tool's name: `refund_order` becomes `order:refund`.
fn scope_of(name: &str, is_read: bool) -> String {
    let words: Vec<String> = words(name);
    let scope = match words.split_first() {
        Some((verb, [])) => format!("{verb}:{}", if is_read { "read" } else { "run" }),
        Some((verb, rest)) => {
            let looks = is_read || LOOKS.contains(&verb.as_str());
            format!("{}:{}", rest.join("_"), if looks { "read" } else { verb })
        }
        None => String::new(),
    };
    if is_scope(&scope) { scope } else { "tools:call".to_owned() }
}

/// The words of a name, in small letters.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let breaks = letter.is_ascii_uppercase()
            && words.last().is_some_and(|word| word.ends_with(|last: char| last.is_ascii_lowercase()));
        if breaks {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            // Case is kept until the word's end, so that the next capital is seen.
            word.push(letter);
        }
    }
    words.into_iter().filter(|word| !word.is_empty()).map(|word| word.to_ascii_lowercase()).collect()
}

/// A name without case and without what joins its words.
fn plain_name(name: &str) -> String {
    folded(name).chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Whether a policy can name an argument so.
fn sound(name: &str) -> bool {
    !name.is_empty() && name.trim() == name && !name.chars().any(char::is_control)
}

fn line(text: &mut String, line: &str) {
    let written = writeln!(text, "{line}");
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
}

/// A comment of one line, however long what it says is, and whatever stands in it.
fn comment(text: &mut String, what: &str) {
    let mut short: String = what.chars().take(LONGEST_COMMENT).collect();
    if what.chars().nth(LONGEST_COMMENT).is_some() {
        short.push('…');
    }
    comment_long(text, &short);
}

fn comment_long(text: &mut String, what: &str) {
    line(text, format!("# {}", plain(what)).trim_end());
}

/// A key of TOML.
fn key(name: &str) -> String {
    let bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if bare { name.to_owned() } else { quoted(name) }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if plain(letter.encode_utf8(&mut [0; 4])).len() > letter.len_utf8() => {
                let written = write!(quoted, "\\U{:08x}", u32::from(letter));
                debug_assert!(written.is_ok(), "writing to a String cannot fail");
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
