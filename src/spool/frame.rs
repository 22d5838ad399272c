//! Records as they lie in the file, and what is to be made of a file that does not look as it should.
//!
//! Promises: what an append had begun and not synced is told apart from what was acknowledged and is damaged now; a
//! frame that is whole is found again behind any damage before it.
//!
//! A frame is a mark, the length, the place in the file where its group began, a checksum of these, a checksum of the
//! record, the record. A group is what was synced together: once a frame names a group that begins behind some place,
//! everything before that place was synced. The mark begins with a byte that no UTF-8 text has, so no record holds it.

use std::ops::Range;

use memchr::memmem;

/// How a frame begins.
const MARK: [u8; 4] = [0xff, b'O', b'G', 1];

/// How long it is before its record.
pub(super) const HEAD: usize = 24;

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Where it begins.
    pub(super) at: usize,
    /// Where its group begins.
    pub(super) group: u64,
    /// Where its record is.
    pub(super) record: Range<usize>,
}

/// A stretch that is no frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// An append that did not come to its end. Nothing of it was acknowledged.
    Torn(Range<usize>),
    /// What may have been acknowledged, and cannot be read.
    Damaged(Range<usize>),
}

/// What is in a file, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) frames: Vec<Frame>,
    pub(super) gaps: Vec<Gap>,
}

/// Writes a frame behind `file`, which shall lie in the group that begins at `group`.
pub(super) fn push(file: &mut Vec<u8>, group: u64, record: &[u8]) {
    // Whoever makes records keeps them far below 4 GiB.
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
    let begin = file.len();
    file.extend_from_slice(&MARK);
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(&group.to_le_bytes());
    let head = crc32fast::hash(file.get(begin..).unwrap_or_default());
    file.extend_from_slice(&head.to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(record).to_le_bytes());
    file.extend_from_slice(record);
}

/// The record of a frame that was read by itself.
pub(super) fn record_of(frame: &[u8]) -> Option<&[u8]> {
    let found = frame_at(frame, 0)?;
    frame.get(found.record)
}

/// Reads a whole file.
pub(super) fn scan(file: &[u8]) -> Scan {
    let mut found = Scan::default();
    let mut holes = Vec::new();
    let mut at = 0;
    while at < file.len() {
        if let Some(frame) = frame_at(file, at) {
            at = frame.record.end;
            found.frames.push(frame);
            continue;
        }
        let next = next_frame(file, at);
        holes.push(at..next);
        at = next;
    }
    let synced = found.frames.iter().map(|frame| frame.group).max().unwrap_or(0);
    let judged = holes.into_iter().map(|hole| {
        let acknowledged = u64::try_from(hole.start).is_ok_and(|start| start < synced);
        if acknowledged || !breaks_off(file, &hole) { Gap::Damaged(hole) } else { Gap::Torn(hole) }
    });
    found.gaps = judged.collect();
    found
}

/// Whether a stretch looks as an append leaves it that did not come to its end: cut short, or never written. Whatever
/// else it may be, it is not thrown away.
fn breaks_off(file: &[u8], hole: &Range<usize>) -> bool {
    let there = file.get(hole.clone()).unwrap_or_default();
    if there.iter().all(|byte| *byte == 0) {
        return true;
    }
    if hole.end < file.len() {
        return false;
    }
    match head_at(file, hole.start) {
        Some(head) => head.record.end > file.len(),
        None => there.len() < HEAD,
    }
}

/// Where the next whole frame behind `at` begins, or the end of the file.
fn next_frame(file: &[u8], at: usize) -> usize {
    let behind = file.get(at + 1..).unwrap_or_default();
    let found = memmem::find_iter(behind, &MARK).map(|place| at + 1 + place);
    found.into_iter().find(|place| frame_at(file, *place).is_some()).unwrap_or(file.len())
}

fn frame_at(file: &[u8], at: usize) -> Option<Frame> {
    let frame = head_at(file, at)?;
    let sum = u32_at(file, at + 20)?;
    (crc32fast::hash(file.get(frame.record.clone())?) == sum).then_some(frame)
}

/// What a head says that is whole, whether or not its record is.
fn head_at(file: &[u8], at: usize) -> Option<Frame> {
    let head = file.get(at..at.checked_add(16)?)?;
    let sum = u32_at(file, at + 16)?;
    if !head.starts_with(&MARK) || crc32fast::hash(head) != sum {
        return None;
    }
    let length = usize::try_from(u32_at(file, at + 4)?).ok()?;
    let group = u64::from_le_bytes(*file.get(at + 8..)?.first_chunk()?);
    let begin = at.checked_add(HEAD)?;
    Some(Frame { at, group, record: begin..begin.checked_add(length)? })
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    file.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::{Frame, Gap, HEAD, push, scan};

    /// A file of groups of records.
    fn file(groups: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut file = Vec::new();
        for group in groups {
            let begin = file.len() as u64;
            for record in group {
                push(&mut file, begin, record);
            }
        }
        file
    }

    fn records<'a>(file: &'a [u8], frames: &[Frame]) -> Vec<&'a [u8]> {
        frames.iter().map(|frame| &file[frame.record.clone()]).collect()
    }

    fn groups() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
        let record = prop_oneof![
            "[ -~]{0,40}".prop_map(String::into_bytes),
            // Nothing that looks like a mark to somebody who sees bytes.
            "\\PC{0,20}".prop_map(String::into_bytes),
        ];
        prop::collection::vec(prop::collection::vec(record, 1..4), 0..6)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(groups in groups()) {
            let file = file(&groups);
            let found = scan(&file);
            prop_assert_eq!(records(&file, &found.frames), groups.concat());
            prop_assert_eq!(found.gaps, []);
        }

        #[test]
        fn a_file_that_is_cut_anywhere_loses_what_was_cut_and_nothing_before(groups in groups(), cut: Index) {
            let whole = file(&groups);
            let end = cut.index(whole.len() + 1);
            let found = scan(&whole[..end]);
            let all = groups.concat();
            let left = records(&whole, &found.frames);
            prop_assert_eq!(&left[..], &all[..left.len()]);
            let kept = found.frames.last().map_or(0, |frame| frame.record.end);
            let torn = if kept < end { vec![Gap::Torn(kept..end)] } else { vec![] };
            prop_assert_eq!(found.gaps, torn);
        }

        #[test]
        fn one_changed_byte_costs_one_record_at_most_and_that_one_is_told_as_damaged(
            groups in groups(), place: Index, change in 1_u8..,
        ) {
            let mut file = file(&groups);
            prop_assume!(!file.is_empty());
            let place = place.index(file.len());
            file[place] ^= change;
            let found = scan(&file);
            let (all, left) = (groups.concat(), records(&file, &found.frames));
            prop_assert_eq!(left.len(), all.len() - 1);
            let lost = (0..all.len()).find(|n| left.get(*n) != Some(&&all[*n][..])).unwrap_or(all.len());
            prop_assert_eq!(&left[lost..], &all[lost + 1..]);
            prop_assert!(matches!(&found.gaps[..], [Gap::Damaged(hole)] if hole.contains(&place)), "{:?}", found.gaps);
        }

        #[test]
        fn rubbish_is_read_without_a_word_too_much(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let found = scan(&bytes);
            let gaps: usize = found.gaps.iter().map(|gap| match gap {
                Gap::Torn(hole) | Gap::Damaged(hole) => hole.len(),
            }).sum();
            let frames: usize = found.frames.iter().map(|frame| frame.record.len() + HEAD).sum();
            prop_assert_eq!(gaps + frames, bytes.len());
        }
    }

    #[test]
    fn a_group_that_was_never_synced_is_torn_however_much_of_it_is_there() {
        let mut bytes = file(&[vec![b"one".to_vec()], vec![b"two".to_vec(), b"three".to_vec()]]);
        let second = HEAD + 3;
        // The power went while the disk had the group's end and not its beginning.
        bytes[second..second + HEAD + 3].fill(0);
        let found = scan(&bytes);
        assert_eq!(records(&bytes, &found.frames), [&b"one"[..], b"three"]);
        assert_eq!(found.gaps, [Gap::Torn(second..second + HEAD + 3)]);
    }
}
