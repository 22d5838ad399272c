//! A page's TOML, read by the gate's own readers: its configuration, its policies, their cases.
//!
//! Promises: a block is what its first comment line names (`# oncegate.toml`, `# policies/billing.toml`), or where it
//! names nothing, what its tables are. One block may hold several files, each under its name. Part of a configuration is
//! read with the rest of one; files that it names are there.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args as _, Command, FromArgMatches as _};
use oncegate::config::{ConfigFlags, Layers};
use oncegate::domain::policy::{Case, Policy};
use toml::{Table, Value};

/// What has no default, for pages that show a part only.
const REST: &str = r#"
service = "billing"
secret_file = "/run/secrets/oncegate"
public_url = "https://api.example.com/mcp"
[upstream]
url = "http://127.0.0.1:8000"
[auth]
issuer = "https://id.example.com"
audience = ["https://api.example.com/mcp"]
hs256_secret_file = "/run/secrets/jwt"
max_session_age = "12h"
[store]
url = "sqlite:oncegate.db"
[policy]
dir = "policies"
"#;

/// What tokens can be checked with; a configuration has one of them.
const KEY_SOURCES: [&str; 4] = ["hs256_secret_file", "public_key_file", "jwks_file", "jwks_url"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Configuration,
    Policy,
    Cases,
}

/// One file of a block.
pub(super) struct Piece {
    pub(super) what: What,
    pub(super) text: String,
}

/// A block's files, or what cannot be told apart in it.
pub(super) fn pieces(block: &str) -> Result<Vec<Piece>, String> {
    let mut files: Vec<(Option<What>, String)> = vec![(None, String::new())];
    for line in block.lines() {
        if let Some(what) = named(line) {
            files.push((Some(what), String::new()));
        }
        if let Some((_, text)) = files.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    let files = files.into_iter().filter(|(_, text)| !text.trim().is_empty());
    let read = |(what, text): (Option<What>, String)| {
        let table: Table = text.parse().map_err(|error| format!("{error}"))?;
        Ok(Piece { what: what.unwrap_or_else(|| guessed(&table)), text })
    };
    files.map(read).collect()
}

/// What a comment line says that the lines below it are.
fn named(line: &str) -> Option<What> {
    let name = line.strip_prefix("# ")?.split([' ', ',', ':', ';']).next()?;
    let stem = name.strip_suffix(".toml")?;
    Some(match stem.rsplit(['.', '/']).next() {
        Some("oncegate") => What::Configuration,
        Some("cases") => What::Cases,
        Some(_) | None => What::Policy,
    })
}

fn guessed(table: &Table) -> What {
    let all = |names: &[&str]| table.keys().all(|key| names.contains(&key.as_str()));
    if all(&["case"]) {
        What::Cases
    } else if all(&["defaults", "tools", "methods", "routes", "jobs"]) {
        What::Policy
    } else {
        What::Configuration
    }
}

/// What the gate says against a block.
pub(super) fn faults(block: &str) -> impl Iterator<Item = String> + use<> {
    let found = match pieces(block) {
        Ok(pieces) => pieces.iter().filter_map(|piece| fault(piece).err()).collect(),
        Err(told) => vec![told],
    };
    found.into_iter()
}

fn fault(piece: &Piece) -> Result<(), String> {
    let source = [(PathBuf::from("page.toml"), piece.text.clone())];
    match piece.what {
        What::Policy => Policy::from_sources(&source).map(drop).map_err(|mistakes| mistakes.to_string()),
        What::Cases => Case::from_sources(&source).map(drop).map_err(|mistakes| mistakes.to_string()),
        What::Configuration => {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let whole = whole(&[&piece.text], folder.path());
            let flags = ConfigFlags::augment_args(Command::new("page").no_binary_name(true));
            let flags = ConfigFlags::from_arg_matches(&flags.get_matches_from([""; 0])).expect("no flags");
            let read = Layers::merge(Some((Path::new("page.toml"), &whole.to_string())), [], &flags);
            read.and_then(|layers| layers.serve()).map(drop).map_err(|mistakes| mistakes.to_string())
        }
    }
}

/// A whole configuration with these parts in it; the files that it names are made in the folder.
pub(super) fn whole(parts: &[&str], folder: &Path) -> Table {
    let mut whole: Table = REST.parse().expect("TOML");
    for part in parts {
        let part: Table = part.parse().expect("it was read before");
        let says_keys = |auth: &Value| KEY_SOURCES.iter().any(|source| auth.get(source).is_some());
        if part.get("auth").is_some_and(says_keys)
            && let Some(Value::Table(auth)) = whole.get_mut("auth")
        {
            auth.retain(|key, _| KEY_SOURCES.iter().all(|source| key != *source));
        }
        lay(&mut whole, part);
    }
    let mut whole = Value::Table(whole);
    make_files(&mut whole, "", folder);
    let Value::Table(whole) = whole else { unreachable!("it was one") };
    whole
}

fn lay(over: &mut Table, part: Table) {
    for (key, value) in part {
        match (over.get_mut(&key), value) {
            (Some(Value::Table(over)), Value::Table(part)) => lay(over, part),
            (_, value) => drop(over.insert(key, value)),
        }
    }
}

/// Every file that a key names, made in the folder, with a secret of its own in it.
fn make_files(value: &mut Value, key: &str, folder: &Path) {
    match value {
        Value::Table(table) => table.iter_mut().for_each(|(key, value)| make_files(value, key, folder)),
        Value::Array(list) => list.iter_mut().for_each(|value| make_files(value, key, folder)),
        Value::String(name) if key.ends_with("_file") => {
            let path = within(name, folder);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a file's folder");
            if key != "spool_file" && !path.exists() {
                fs::write(&path, content(key)).expect("a secret");
            }
            *name = path.to_string_lossy().into_owned();
        }
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// Where a file of a page's machine is in the folder.
pub(super) fn within(name: &str, folder: &Path) -> PathBuf {
    folder.join(name.trim_start_matches('/'))
}

fn content(key: &str) -> String {
    let certified =
        || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    match key {
        "public_key_file" => certified().signing_key.public_key_pem(),
        "ca_file" | "jwks_ca_file" => certified().cert.pem(),
        "jwks_file" => "{\"keys\":[]}".to_owned(),
        _ => format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()),
    }
}
