//! What stands in files, as far as it tells whether they have changed.
//!
//! Promises: of two looks at the same names, the results are the same exactly if a reload would read the same.
//!
//! Absent on purpose: times of change and inode numbers. Some file systems lie about the one, and a mounted
//! `ConfigMap` that is written anew with the same text has others.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::config::{NamedFiles, read_policy_dir};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(BTreeMap<PathBuf, Found>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Text([u8; 32]),
    Unreadable(ErrorKind),
    /// A folder with a mistake in it, as it is told.
    Broken(String),
}

/// Looks at the files. They may be on a slow disk: a thread that may wait does it.
pub(super) async fn look(named: &NamedFiles) -> Seen {
    let named = named.clone();
    tokio::task::spawn_blocking(move || look_now(&named)).await.unwrap_or_default()
}

fn look_now(named: &NamedFiles) -> Seen {
    let mut seen = Seen::default();
    for path in &named.files {
        seen.0.insert(path.clone(), file(path));
    }
    for folder in &named.folders {
        match read_policy_dir(folder) {
            Ok(files) => {
                let files =
                    files.into_iter().map(|(path, text)| (path, Found::Text(Sha256::digest(text).into())));
                seen.0.extend(files);
            }
            Err(mistakes) => {
                seen.0.insert(folder.clone(), Found::Broken(mistakes.to_string()));
            }
        }
    }
    seen
}

fn file(path: &Path) -> Found {
    match fs::read(path) {
        Ok(bytes) => Found::Text(Sha256::digest(bytes).into()),
        Err(fault) => Found::Unreadable(fault.kind()),
    }
}
