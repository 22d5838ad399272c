//! What is in the file: how it is mended, written, read, and made small again. Everything here blocks.
//!
//! Promises: what [`Book::append`] returned for is on the disk, in the file that the next process opens; what is found
//! damaged, at the start or later, is kept in a file beside it, and whatever else can be read goes on waiting in its order.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use tracing::{error, info, warn};

use super::SpoolFault;
use super::disk::{self, unusable};
use super::frame::{self, Gap, HEAD, Scan};
use super::record::Record;

/// The open file, and what in it still waits.
pub(super) struct Book {
    path: PathBuf,
    file: File,
    /// Whether a crash would leave this file under its name, not the one whose place it took.
    is_in_place: bool,
    /// Held as long as the process has the file.
    _lock: File,
    /// Where the next frame goes.
    end: u64,
    /// What waits, in its order.
    waiting: BTreeMap<u64, Place>,
    /// What waited, cannot be read, and is not kept aside yet.
    damaged: Vec<Place>,
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
        let path = disk::resolved(path).map_err(|source| unusable(path, source))?;
        let lock = disk::lock(&path)?;
        let mended = mend(&path).map_err(|source| unusable(&path, source))?;
        let file = disk::opened(&path).map_err(|source| unusable(&path, source))?;
        let mut book = Self {
            path,
            file,
            is_in_place: true,
            _lock: lock,
            end: mended.length,
            waiting: BTreeMap::new(),
            damaged: Vec::new(),
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
        if let Err(error) = self.write_anew() {
            warn!(file = %self.path.display(), error = %error, "The spool could not be made smaller.");
        }
        self.end.saturating_add(more) <= limit
    }

    /// Writes records down, all of them or none.
    pub(super) fn append(&mut self, records: &[Vec<u8>]) -> io::Result<()> {
        let mut group = Vec::with_capacity(records.iter().map(|record| record.len() + HEAD).sum());
        for record in records {
            frame::push(&mut group, self.end, record);
        }
        if !self.is_in_place {
            disk::sync_folder(&self.path)?;
            self.is_in_place = true;
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
    /// What is found damaged does not wait any more.
    pub(super) fn read(&mut self, after: u64, most: usize, weight: usize) -> io::Result<Vec<(u64, Record)>> {
        let (mut found, mut damaged, mut whole) = (Vec::new(), Vec::new(), 0);
        for (number, place) in self.waiting.range(after.saturating_add(1)..) {
            whole += place.length;
            if found.len() >= most || whole > weight && !found.is_empty() {
                break;
            }
            match self.frame(*place)?.as_deref().and_then(frame::record_of).and_then(Record::decode) {
                Some(record) => found.push((*number, record)),
                None => damaged.push(*number),
            }
        }
        if !damaged.is_empty() {
            self.put_aside(&damaged);
            if let Err(error) = self.write_anew() {
                error!(
                    file = %self.path.display(),
                    error = %error,
                    "The damaged part of the spool could not be kept aside. It is left in the file."
                );
            }
        }
        Ok(found)
    }

    /// The bytes at this place, where the file is so long.
    fn frame(&self, place: Place) -> io::Result<Option<Vec<u8>>> {
        let mut frame = vec![0; place.length];
        match self.file.read_exact_at(&mut frame, place.at) {
            Ok(()) => Ok(Some(frame)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(io::Error::new(error.kind(), format!("offset {}: {error}", place.at))),
        }
    }

    /// What cannot be read keeps nobody waiting.
    fn put_aside(&mut self, numbers: &[u64]) {
        let gone: Vec<_> = numbers.iter().filter_map(|number| self.waiting.remove(number)).collect();
        self.weight -= gone.iter().map(|place| place.length as u64).sum::<u64>();
        self.damaged.extend(gone);
    }

    /// Forgets records that need not wait any more; a file in which nothing waits is made empty.
    pub(super) fn done(&mut self, numbers: &[u64]) -> io::Result<()> {
        for number in numbers {
            let gone = self.waiting.remove(number);
            self.weight -= gone.map_or(0, |place| place.length as u64);
        }
        if self.waiting.is_empty() && !self.damaged.is_empty() {
            return self.write_anew();
        }
        if self.waiting.is_empty() && self.end > 0 {
            self.file.set_len(0)?;
            self.end = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Writes what waits into a new file, which takes the place of the old one; what does not wait because it is damaged
    /// is kept aside before.
    fn write_anew(&mut self) -> io::Result<()> {
        let (mut bytes, mut places, mut damaged) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (number, place) in &self.waiting {
            let frame = self.frame(*place)?;
            let Some(record) = frame.as_deref().and_then(frame::record_of) else {
                damaged.push(*number);
                continue;
            };
            places.insert(*number, Place { at: bytes.len() as u64, length: place.length });
            frame::push(&mut bytes, 0, record);
        }
        self.put_aside(&damaged);
        if !self.damaged.is_empty() {
            let mut offsets: Vec<_> = self.damaged.iter().map(|place| place.at).collect();
            offsets.sort_unstable();
            let (mut found, mut file) = (Vec::new(), &self.file);
            file.rewind()?;
            file.read_to_end(&mut found)?;
            let aside = disk::keep_aside(&self.path, &found)?;
            tell_damaged(&self.path, &offsets, &aside, self.waiting.len());
        }
        // From here on nothing waits in the old file: whatever fails, the new one is the one that is written.
        self.file = disk::replace(&self.path, &bytes)?;
        self.is_in_place = false;
        self.end = bytes.len() as u64;
        self.waiting = places;
        self.damaged.clear();
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
    let mut damaged: Vec<u64> = unread.iter().map(|frame| frame.at as u64).collect();
    for gap in &gaps {
        match gap {
            Gap::Torn(hole) => warn!(
                file = %path.display(),
                offset = hole.start,
                bytes = hole.len(),
                "The spool ends in a write that was not finished, and not acknowledged; it is cut off."
            ),
            Gap::Damaged(hole) => damaged.push(hole.start as u64),
        }
    }
    if !damaged.is_empty() {
        damaged.sort_unstable();
        let aside = disk::keep_aside(path, &bytes)?;
        tell_damaged(path, &damaged, &aside, good.len());
    }
    let (mut whole, mut places) = (Vec::new(), Vec::new());
    for frame in good {
        let begin = whole.len();
        frame::push(&mut whole, 0, bytes.get(frame.record).unwrap_or_default());
        places.push(begin..whole.len());
    }
    // Whoever opens it now syncs its folder.
    disk::replace(path, &whole)?;
    Ok(Mended { length: whole.len() as u64, frames: places })
}

fn tell_damaged(path: &Path, offsets: &[u64], aside: &Path, waiting: usize) {
    error!(
        file = %path.display(),
        offsets = ?offsets,
        kept = %aside.display(),
        waiting,
        "The spool is damaged. All that can be read goes on; the whole file is kept as it was found. Records are JSON \
         behind heads of 24 bytes: look there for rows that the audit lacks, resolve claims that it would have settled \
         (`oncegate claims`), then delete it."
    );
}
