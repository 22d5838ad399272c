//! The wish to be told when files change.
//!
//! Promises: an edit of a named file or of a policy's folder stirs, and so does the exchange of what a mounted `ConfigMap`
//! or `Secret` points to (`..data` is renamed over, and no file's own name is touched); reading does not. Whoever is
//! stirred looks what changed: events say only that something may have.
//!
//! Absent on purpose: any trust in it. Some file systems tell nothing, and watches are few on some machines: who waits
//! for a stir looks now and then without one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tracing::warn;

use crate::config::NamedFiles;

/// Tells of changes.
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    ours: Arc<RwLock<Ours>>,
    stir: Arc<Notify>,
    /// Whether it was said that some folder cannot be watched.
    said: bool,
}

/// What is of interest in the folders that are watched.
#[derive(Debug, Default)]
struct Ours {
    /// The policies' folders, by their names and by those that links lead to: everything in them.
    folders: BTreeSet<PathBuf>,
    /// The names of files, in whatever folder.
    names: BTreeSet<OsString>,
}

impl Watch {
    /// Over nothing yet.
    pub(super) fn begin() -> Self {
        let (stir, ours) = (Arc::new(Notify::new()), Arc::new(RwLock::new(Ours::default())));
        let (stirred, wanted) = (Arc::clone(&stir), Arc::clone(&ours));
        let told = move |event: Result<Event, notify::Error>| {
            let ours = wanted.read().unwrap_or_else(PoisonError::into_inner);
            if event.is_ok_and(|event| matters(&event, &ours)) {
                stirred.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(told);
        if let Err(fault) = &watcher {
            warn!(error = %fault, "The system tells of no changed files; they are looked at every few seconds.");
        }
        Self { watcher: watcher.ok(), watched: BTreeSet::new(), ours, stir, said: false }
    }

    /// From now on, over these. Says whether some of them were not watched before.
    pub(super) fn over(&mut self, named: &NamedFiles) -> bool {
        let wanted = folders(named);
        *self.ours.write().unwrap_or_else(PoisonError::into_inner) = Ours::of(named);
        let Some(watcher) = &mut self.watcher else { return false };
        for folder in self.watched.difference(&wanted) {
            // Of a folder that is gone the watch is gone, too.
            let _gone = folder.exists() && watcher.unwatch(folder).is_err();
        }
        // Watched anew each time: a folder that was replaced has the same name, and another watch.
        let mut reached = BTreeSet::new();
        for folder in wanted {
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    reached.insert(folder);
                }
                Err(fault) if !self.said => {
                    self.said = true;
                    let folder = folder.display();
                    warn!(%folder, error = %fault, "Changes here are found by looking every few seconds.");
                }
                Err(_) => {}
            }
        }
        let has_more = !reached.is_subset(&self.watched);
        self.watched = reached;
        has_more
    }

    /// Waits until something may have changed.
    ///
    /// # Cancel safety
    /// A stir that was not waited for is kept.
    pub(super) async fn stirred(&self) {
        self.stir.notified().await;
    }
}

/// Where what is named can change: in its folder, and in that to which links lead; and a policy's folder itself.
fn folders(named: &NamedFiles) -> BTreeSet<PathBuf> {
    let above = named.files.iter().chain(&named.folders);
    let mut folders: BTreeSet<PathBuf> = above.filter_map(|path| path.parent()).map(Path::to_owned).collect();
    folders.extend(named.folders.iter().cloned());
    let real = named.files.iter().filter_map(|path| path.canonicalize().ok()?.parent().map(Path::to_owned));
    folders.extend(real);
    folders.extend(named.folders.iter().filter_map(|path| path.canonicalize().ok()));
    folders
}

/// Whether an event can mean that a reload reads something else. A folder may hold files that change all the time, a
/// database beside the configuration say.
fn matters(event: &Event, ours: &Ours) -> bool {
    let kind = match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    };
    kind && (event.need_rescan() || event.paths.iter().any(|path| ours.has(path)))
}

impl Ours {
    fn of(wanted: &NamedFiles) -> Self {
        let real = |paths: &BTreeSet<PathBuf>| -> Vec<PathBuf> {
            paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
        };
        let (files, folders) = (real(&wanted.files), real(&wanted.folders));
        let all = wanted.files.iter().chain(&wanted.folders).chain(&files).chain(&folders);
        let names = all.filter_map(|path| path.file_name()).map(ToOwned::to_owned);
        Self { names: names.collect(), folders: wanted.folders.iter().cloned().chain(folders).collect() }
    }

    fn has(&self, path: &Path) -> bool {
        let in_folder = path.parent().is_some_and(|parent| self.folders.contains(parent));
        let name = path.file_name().unwrap_or_default();
        // What a mount renames over begins with two dots.
        in_folder || self.names.contains(name) || name.to_string_lossy().starts_with("..")
    }
}
