//! The SQLite file: where it is, who serves it, how it is set up.
//!
//! Promises: at most one process serves a file; others may look at it, and settle claims by hand, meanwhile; a commit
//! that was confirmed is on disk; a file that is made is readable by its owner only.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use crate::store::{Role, StoreError};

/// How long to wait for another connection's write.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// How long a process that is just ending may still hold the file.
const HANDOVER: Duration = Duration::from_secs(2);

/// Between two looks at that.
const LOOK: Duration = Duration::from_millis(20);

/// An open file.
pub(super) struct Opened {
    /// For the group writer.
    pub(super) writer: Connection,
    /// For questions and upkeep.
    pub(super) desk: Connection,
    /// For lists, which may take long.
    pub(super) guests: Connection,
    /// Held as long as the process serves the file.
    pub(super) lock: Option<File>,
}

/// Opens `path`. Blocks.
pub(super) fn open(path: &str, role: Role) -> Result<Opened, StoreError> {
    if path.is_empty() || path.starts_with(':') {
        let told = "sqlite: needs the path of a file; a ledger that vanishes with its process guards nothing";
        return Err(StoreError::Unfit(told.into()));
    }
    let path = Path::new(path);
    let (path, lock) = match role {
        Role::Serve => {
            let path = resolved(path)?;
            let lock = lock(&path)?;
            (path, Some(lock))
        }
        Role::Inspect => (path.to_owned(), None),
    };
    let writer = connect(&path)?;
    let (desk, guests) = (connect(&path)?, connect(&path)?);
    Ok(Opened { writer, desk, guests, lock })
}

/// One name for the file, however it was named: the lock stands beside it. A file that is not there is made first: a link
/// to where nothing is yet leads to it only then. One that is there is left alone: closing a file drops the locks that
/// SQLite holds on it in this process.
fn resolved(path: &Path) -> Result<PathBuf, StoreError> {
    if let Ok(there) = fs::canonicalize(path) {
        return Ok(there);
    }
    drop(OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(unusable(path))?);
    fs::canonicalize(path).map_err(unusable(path))
}

/// Takes the lock of the serving process.
fn lock(path: &Path) -> Result<File, StoreError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let file =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&beside).map_err(unusable(&beside))?;
    let until = Instant::now() + HANDOVER;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(unusable(&beside)(error)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => wait(LOOK),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Unfit(format!(
                    "another process serves {}; SQLite is for one, several share a Postgres",
                    path.display()
                )));
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "files are opened on a thread that may block")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

fn unusable(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |error| StoreError::Unfit(format!("{}: {error}", path.display()))
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let unfit = |error: rusqlite::Error| StoreError::Unfit(format!("{}: {error}", path.display()));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(unfit)?;
    connection.busy_timeout(BUSY).map_err(unfit)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(unfit)?;
    if mode != "wal" {
        let told = format!("{}: it cannot keep a write-ahead log there ({mode})", path.display());
        return Err(StoreError::Unfit(told));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(unfit)?;
    Ok(connection)
}
