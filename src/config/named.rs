//! The files and folders that the configuration names, and that may change while the gate runs.
//!
//! Promises: whatever a start reads is among them, whether or not it could be read; paths are absolute.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use super::flags::ConfigFlags;
use super::layers::{FILE_VARIABLE, Layers, USUAL_FILE};
use super::number::Texts;
use super::raw::Set;

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFiles {
    /// Files, the configuration itself first of all.
    pub files: BTreeSet<PathBuf>,
    /// The folders of policies.
    pub folders: BTreeSet<PathBuf>,
    /// That of the files which holds the keys of tokens.
    pub keys: Option<PathBuf>,
}

impl ConfigFlags {
    /// The configuration's file, where there is one.
    pub fn config_file(&self) -> Option<PathBuf> {
        match self.file.clone().or_else(|| env::var_os(FILE_VARIABLE).map(PathBuf::from)) {
            Some(named) => Some(named),
            None => Some(PathBuf::from(USUAL_FILE)).filter(|usual| usual.exists()),
        }
    }
}

impl NamedFiles {
    /// The configuration's file alone: what is known where it cannot be read.
    pub fn of(file: Option<&Path>) -> Self {
        let mut named = Self::default();
        named.files.extend(file.and_then(absolute));
        named
    }
}

impl Layers {
    /// What is named.
    pub fn named(&self) -> NamedFiles {
        let raw = &self.raw;
        let mut named = NamedFiles::of(self.file.as_deref());
        let one = |set: &Set<String>| set.as_ref().map(|value| value.get_ref().clone());
        let many = |set: &Set<Texts>| -> Vec<String> {
            set.as_ref().map(|value| value.get_ref().0.clone()).unwrap_or_default()
        };
        let auth = &raw.auth;
        let files = [
            &raw.admin_token_file,
            &raw.upstream.ca_file,
            &auth.hs256_secret_file,
            &auth.public_key_file,
            &auth.jwks_file,
            &auth.jwks_ca_file,
            &raw.store.url_file,
            &raw.herd.redis_url_file,
        ];
        let tokens = raw.service_tokens.values().flat_map(|table| many(&table.get_ref().token_file));
        let roots = raw.listener.iter().filter_map(|table| one(&table.get_ref().upstream.ca_file));
        let files =
            files.into_iter().filter_map(one).chain(many(&raw.secret_file)).chain(tokens).chain(roots);
        named.files.extend(files.filter_map(|path| absolute(Path::new(&path))));
        let keys = [&auth.hs256_secret_file, &auth.public_key_file, &auth.jwks_file];
        named.keys = keys.into_iter().find_map(one).and_then(|path| absolute(Path::new(&path)));
        let folders = raw.listener.iter().map(|table| &table.get_ref().policy.dir);
        let folders = std::iter::once(&raw.policy.dir).chain(folders).filter_map(one);
        named.folders.extend(folders.filter_map(|path| absolute(Path::new(&path))));
        named
    }
}

fn absolute(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok()
}
