//! A folder as the kubelet mounts a `ConfigMap` or a `Secret`: every name is a link through `..data`, and an update puts
//! a new folder in the place of the old one by renaming that one link.
//!
//! Promises: at any moment all names lead to the same update.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A mounted folder; gone with its value.
pub(crate) struct Mount(TempDir);

impl Mount {
    /// With these files: name and text of each.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let mount = Self(tempfile::tempdir().expect("a temporary folder"));
        mount.swap(files);
        for (name, _) in files {
            symlink(format!("..data/{name}"), mount.file(name)).expect("a link");
        }
        mount
    }

    /// Puts other files in their place, as an update does.
    pub(crate) fn swap(&self, files: &[(&str, &str)]) {
        let old = fs::read_link(self.0.path().join("..data")).ok();
        let name = format!("..{}", uuid::Uuid::new_v4());
        let folder = self.0.path().join(&name);
        fs::create_dir(&folder).expect("the new folder");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a file in it");
        }
        let (new, data) = (self.0.path().join("..data_tmp"), self.0.path().join("..data"));
        symlink(&name, &new).expect("a link");
        fs::rename(&new, &data).expect("the link is renamed over");
        if let Some(old) = old {
            fs::remove_dir_all(self.0.path().join(old)).expect("the old folder goes");
        }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// One file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The folder, as a setting names it.
    pub(crate) fn text(&self) -> String {
        text(self.path())
    }
}

/// A path, as a setting names it.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("temporary folders have plain names").to_owned()
}
