//! The file: how it is opened, mended, written, read, and made small again. Everything here blocks.
//!
//! Promises: at most one process has it; what [`Book::append`] returned for is on the disk; what is found damaged is kept
//! in a file beside it, and whatever else can be read goes on waiting in its order; a file that is written anew takes the
//! place of the old one whole, or not at all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::SpoolFault;
use super::frame::{self, Gap, HEAD, Scan};
use super::record::Record;

/// How long a process that is just ending may still hold the file.
const HANDOVER: Duration = Duration::from_secs(2);

/// Between two looks at that.
const LOOK: Duration = Duration::from_millis(20);

/// The open file, and what in it still waits.
pub(super) struct Book {
    path: PathBuf,
    file: File,
    /// Held as long as the process has the file.
    _lock: File,
    /// Where the next frame goes.
    end: u64,
    /// What waits, in its order.
    waiting: BTreeMap<u64, Place>,
    /// How many bytes that is.
    weight: u64,
    /// The number of the next record.
    next: u64,
}

/// Where a frame is.
#[derive(Clone, Copy)]
struct Place {
    at: u64,
    length: usize,
}

impl Book {
    pub(super) fn open(path: &Path) -> Result<Self, SpoolFault> {
        let path = resolved(path).map_err(|source| unusable(path, source))?;
        let lock = lock(&path)?;
        let mended = mend(&path).map_err(|source| unusable(&path, source))?;
        let file = opened(&path).map_err(|source| unusable(&path, source))?;
        let mut book = Self {
            path,
            file,
            _lock: lock,
            end: mended.length,
            waiting: BTreeMap::new(),
            weight: 0,
            next: 1,
        };
        for frame in mended.frames {
            book.enter(frame.start, frame.len());
        }
        Ok(book)
    }

    /// How many records wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many bytes they take.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    fn enter(&mut self, at: usize, length: usize) {
        self.waiting.insert(self.next, Place { at: at as u64, length });
        self.weight += length as u64;
        self.next += 1;
    }

    /// Whether this much more fits below `limit`; what was drained makes room where it is needed.
    pub(super) fn fits(&mut self, more: u64, limit: u64) -> bool {
        if self.end.saturating_add(more) <= limit {
            return true;
        }
        if self.weight.saturating_add(more) > limit {
            return false;
        }
        match self.write_anew() {
            Ok(()) => self.end.saturating_add(more) <= limit,
            Err(error) => {
                warn!(file = %self.path.display(), error = %error, "The spool could not be made smaller.");
                false
            }
        }
    }

    /// Writes records down, all of them or none.
    pub(super) fn append(&mut self, records: &[Vec<u8>]) -> io::Result<()> {
        let mut group = Vec::with_capacity(records.iter().map(|record| record.len() + HEAD).sum());
        for record in records {
            frame::push(&mut group, self.end, record);
        }
        let written = self.file.write_all_at(&group, self.end).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Nobody was told that it is there. Where this fails too, the next append lies over it.
            let _cut = self.file.set_len(self.end).is_ok();
            return Err(error);
        }
        let mut at = usize::try_from(self.end).unwrap_or(usize::MAX);
        self.end += group.len() as u64;
        for record in records {
            self.enter(at, record.len() + HEAD);
            at += record.len() + HEAD;
        }
        Ok(())
    }

    /// The first records behind the one with number `after`: so many at most, and of so many bytes, but one at least.
    pub(super) fn read(&self, after: u64, most: usize, weight: usize) -> io::Result<Vec<(u64, Record)>> {
        let (mut found, mut whole) = (Vec::new(), 0);
        for (number, place) in self.waiting.range(after.saturating_add(1)..).take(most) {
            whole += place.length;
            if whole > weight && !found.is_empty() {
                break;
            }
            let mut frame = vec![0; place.length];
            self.file.read_exact_at(&mut frame, place.at)?;
            let record = frame::record_of(&frame).and_then(Record::decode);
            let damaged =
                || io::Error::new(io::ErrorKind::InvalidData, format!("offset {}: damaged", place.at));
            found.push((*number, record.ok_or_else(damaged)?));
        }
        Ok(found)
    }

    /// Forgets records that need not wait any more; a file in which nothing waits is made empty.
    pub(super) fn done(&mut self, numbers: &[u64]) -> io::Result<()> {
        for number in numbers {
            let gone = self.waiting.remove(number);
            self.weight -= gone.map_or(0, |place| place.length as u64);
        }
        if self.waiting.is_empty() && self.end > 0 {
            self.file.set_len(0)?;
            self.end = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Writes what waits into a new file, which takes the place of the old one.
    fn write_anew(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut places = Vec::with_capacity(self.waiting.len());
        for place in self.waiting.values() {
            let mut frame = vec![0; place.length];
            self.file.read_exact_at(&mut frame, place.at)?;
            let record = frame::record_of(&frame).ok_or(io::ErrorKind::InvalidData)?;
            places.push(bytes.len() as u64);
            frame::push(&mut bytes, 0, record);
        }
        replace(&self.path, &bytes)?;
        self.file = opened(&self.path)?;
        self.end = bytes.len() as u64;
        for (place, at) in self.waiting.values_mut().zip(places) {
            place.at = at;
        }
        Ok(())
    }
}

/// A file in order.
struct Mended {
    length: u64,
    frames: Vec<Range<usize>>,
}

/// Reads the file, and brings it in order where it is not.
fn mend(path: &Path) -> io::Result<Mended> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let Scan { frames, gaps } = frame::scan(&bytes);
    let (good, unread): (Vec<_>, Vec<_>) = frames
        .into_iter()
        .partition(|frame| bytes.get(frame.record.clone()).and_then(Record::decode).is_some());
    if gaps.is_empty() && unread.is_empty() {
        let frames: Vec<_> = good.iter().map(|frame| frame.at..frame.record.end).collect();
        if !frames.is_empty() {
            info!(file = %path.display(), records = frames.len(), "The spool holds what an earlier process left.");
        }
        return Ok(Mended { length: bytes.len() as u64, frames });
    }
    let mut damaged: Vec<usize> = unread.iter().map(|frame| frame.at).collect();
    for gap in &gaps {
        match gap {
            Gap::Torn(hole) => warn!(
                file = %path.display(),
                offset = hole.start,
                bytes = hole.len(),
                "The spool ends in a write that was not finished, and not acknowledged; it is cut off."
            ),
            Gap::Damaged(hole) => damaged.push(hole.start),
        }
    }
    if !damaged.is_empty() {
        damaged.sort_unstable();
        let aside = keep_aside(path, &bytes)?;
        error!(
            file = %path.display(),
            offsets = ?damaged,
            kept = %aside.display(),
            waiting = good.len(),
            "The spool is damaged. All that can be read goes on; the whole file is kept as it was found. Records are \
             JSON behind heads of 24 bytes: look there for rows that the audit lacks, resolve claims that it would have \
             settled (`oncegate claims`), then delete it."
        );
    }
    let (mut whole, mut places) = (Vec::new(), Vec::new());
    for frame in good {
        let begin = whole.len();
        frame::push(&mut whole, 0, bytes.get(frame.record).unwrap_or_default());
        places.push(begin..whole.len());
    }
    replace(path, &whole)?;
    Ok(Mended { length: whole.len() as u64, frames: places })
}

/// Writes the file once more, under a name that nothing has.
fn keep_aside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
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

/// Puts a file with these bytes in the place of the one that is there.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path, ".new");
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_folder(path)
}

fn opened(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().create(true).read(true).write(true).truncate(false).mode(0o600).open(path)?;
    sync_folder(path)?;
    Ok(file)
}

/// A file that was made or renamed is there after a crash only once its folder is on the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(OsStr::new(end));
    path.with_file_name(name)
}

/// One name for the file, however it was named: its lock stands beside it.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    if let Ok(there) = fs::canonicalize(path) {
        return Ok(there);
    }
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    Ok(fs::canonicalize(folder)?.join(name))
}

fn lock(path: &Path) -> Result<File, SpoolFault> {
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

fn unusable(path: &Path, source: io::Error) -> SpoolFault {
    SpoolFault::Unusable { file: path.to_owned(), source }
}
