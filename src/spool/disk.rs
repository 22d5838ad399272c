//! The file on its disk: its name, its lock, and how another takes its place. Everything here blocks.
//!
//! Promises: at most one process has a file, by whatever name it was told; a file that takes another's place does so
//! whole, or not at all; a copy that is kept aside takes nobody's place.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::SpoolFault;

/// How long a process that is just ending may still hold the file.
const HANDOVER: Duration = Duration::from_secs(2);

/// Between two looks at that.
const LOOK: Duration = Duration::from_millis(20);

/// Writes the file once more, under a name that nothing has.
pub(super) fn keep_aside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let aside = beside(path, &format!(".damaged-{number}"));
        match OpenOptions::new().create_new(true).write(true).mode(0o600).open(&aside) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                file.sync_all()?;
                return Ok(aside);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Puts a file with these bytes in the place of the one that is there, and gives it open. It stays there through a crash
/// once its folder is synced.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let new = beside(path, ".new");
    let mut file =
        OpenOptions::new().create(true).read(true).write(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    Ok(file)
}

/// The file, open, and there after a crash.
pub(super) fn opened(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().create(true).read(true).write(true).truncate(false).mode(0o600).open(path)?;
    sync_folder(path)?;
    Ok(file)
}

/// A file that was made or renamed is there after a crash only once its folder is on the disk.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(OsStr::new(end));
    path.with_file_name(name)
}

/// One name for the file, however it was named: its lock stands beside it. A file that is not there is made first: a link
/// to where nothing is yet leads to it only then.
pub(super) fn resolved(path: &Path) -> io::Result<PathBuf> {
    if let Ok(there) = fs::canonicalize(path) {
        return Ok(there);
    }
    drop(OpenOptions::new().create(true).append(true).mode(0o600).open(path)?);
    fs::canonicalize(path)
}

pub(super) fn lock(path: &Path) -> Result<File, SpoolFault> {
    let beside = beside(path, ".lock");
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&beside);
    let file = file.map_err(|source| unusable(&beside, source))?;
    let until = Instant::now() + HANDOVER;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(unusable(&beside, source)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => wait(LOOK),
            Err(TryLockError::WouldBlock) => return Err(SpoolFault::Taken { file: path.to_owned() }),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "files are opened on a thread that may block")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

pub(super) fn unusable(path: &Path, source: io::Error) -> SpoolFault {
    SpoolFault::Unusable { file: path.to_owned(), source }
}
