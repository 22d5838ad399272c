//! The files that settings name: secrets, and the policy's folder.
//!
//! Promises: a secret is never printed, and never empty or short by accident; a folder's files come sorted by name,
//! so that the same folder gives the same mistakes in the same order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::domain::fingerprint::MIN_SECRET_BYTES;
use crate::domain::mistake::{Mistake, Mistakes};
use crate::domain::policy::{Policy, Warning};

/// What ends the name of a file with cases, which is no policy.
const CASES: &str = ".cases.toml";

/// A secret's bytes: [`MIN_SECRET_BYTES`] or more.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Secret {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The fewest bytes of an admin token.
const MIN_TOKEN_BYTES: usize = 16;

/// The token of operators. It fits into a header.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(String);

impl AdminToken {
    /// The text behind `Bearer `.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether this is it. Hashes are compared: so the time tells nothing of where they differ, nor of the length.
    pub fn is(&self, given: &[u8]) -> bool {
        Sha256::digest(given).ct_eq(&Sha256::digest(&self.0)).into()
    }

    /// The token that this text is.
    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The fewest bytes of a service's token: it opens the gate itself, and no person types it.
const MIN_SERVICE_TOKEN_BYTES: usize = 32;

/// The token of a service. It fits into a header.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceToken(String);

impl ServiceToken {
    /// The text that the service presents.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// The operators' token in a file. A message says what is wrong with it.
pub(super) fn read_admin_token(path: &Path) -> Result<AdminToken, String> {
    read_token(path, MIN_TOKEN_BYTES).map(AdminToken)
}

/// A service's token in a file. A message says what is wrong with it.
pub(super) fn read_service_token(path: &Path) -> Result<ServiceToken, String> {
    read_token(path, MIN_SERVICE_TOKEN_BYTES).map(ServiceToken)
}

fn read_token(path: &Path, least: usize) -> Result<String, String> {
    let text = read_text(path)?;
    let found = text.len();
    let path = path.display();
    if found < least {
        return Err(format!("the token in {path} has {found} bytes, and needs {least} or more"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("the token in {path} is not one word of printable ASCII, as a header wants it"));
    }
    Ok(text)
}

/// The secret in a file, without the line end that editors leave behind it. A message says what is wrong with it.
pub(super) fn read_secret(path: &Path) -> Result<Secret, String> {
    let mut bytes = read(path)?;
    while bytes.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
        bytes.pop();
    }
    if bytes.len() < MIN_SECRET_BYTES {
        let found = bytes.len();
        let path = path.display();
        return Err(format!("the secret in {path} has {found} bytes, and needs {MIN_SECRET_BYTES} or more"));
    }
    Ok(Secret(bytes))
}

/// A file's bytes. A message says why they cannot be had, and where they were looked for.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path)
        .map_err(|error| format!("{} cannot be read{}: {}", path.display(), tried(path), plain(&error)))
}

/// The whole path that a relative one was taken for, in brackets.
fn tried(path: &Path) -> String {
    match std::path::absolute(path) {
        Ok(whole) if path.is_relative() => format!(" ({})", whole.display()),
        Ok(_) | Err(_) => String::new(),
    }
}

/// A file's text without the line end behind it. A message says why it cannot be had.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let text = String::from_utf8(read(path)?).map_err(|_| format!("{} is not UTF-8", path.display()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// The operating system's sentence without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Path and text of every policy file of a folder: `*.toml`, but neither `*.cases.toml` nor hidden files (a mounted
/// `ConfigMap` has its own).
pub fn read_policy_dir(dir: &Path) -> Result<Vec<(PathBuf, String)>, Mistakes> {
    let found = read_toml(dir, |name| !name.ends_with(CASES))?;
    if found.is_empty() {
        let mistake = Mistake::in_file(dir, "the folder has no policy in it");
        return Err(mistake.with_help("a policy is a file that ends in .toml").into());
    }
    Ok(found)
}

/// Path and text of every file of cases in a folder; there may be none.
pub fn read_cases_dir(dir: &Path) -> Result<Vec<(PathBuf, String)>, Mistakes> {
    read_toml(dir, |name| name.ends_with(CASES))
}

/// The policy that a folder's files make together.
pub fn load_policy(dir: &Path) -> Result<(Policy, Vec<Warning>), Mistakes> {
    Policy::from_sources(&read_policy_dir(dir)?)
}

fn read_toml(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<(PathBuf, String)>, Mistakes> {
    let unreadable = |error: io::Error| {
        Mistake::in_file(dir, format!("the folder of the policy cannot be read: {}", plain(&error)))
            .with_help("policy.dir names it, or that of a listener")
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|end| end == "toml")
            && !name.starts_with('.')
            && wanted(&name)
        {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let (mut files, mut mistakes) = (Vec::new(), Vec::new());
    for path in paths {
        match fs::read_to_string(&path) {
            Ok(text) => files.push((path, text)),
            Err(error) => {
                mistakes.push(Mistake::in_file(&path, format!("the file cannot be read: {}", plain(&error))));
            }
        }
    }
    Mistakes::none_in(mistakes)?;
    Ok(files)
}
