//! The spool's file: what was acknowledged is there, whatever becomes of the file.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oncegate::domain::audit::AuditEvent;
use oncegate::domain::ledger::{Attempt, AttemptKind, Came, Downstream, Terms};
use oncegate::meter::Meter;
use oncegate::spool::{Known, Record, Settlement, Spool, SpoolFault};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use crate::harness::{eventually, in_time};
use crate::store::samples::{draft, event, id};

const LARGE: u64 = 64 << 20;

/// Sent to whoever writes beyond its limit. Unless it is heard, it kills.
const SIGXFSZ: i32 = 25;

fn meter() -> Arc<Meter> {
    Arc::new(Meter::new("billing"))
}

/// A folder with a place for a spool.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("spool");
    (folder, path)
}

/// The spool in this file.
pub(crate) async fn open(path: &Path) -> Spool {
    // The file is handed over by a thread that may just be ending.
    Spool::open(path, LARGE, meter()).await.expect("a spool")
}

/// The end of a call that certainly did not run.
pub(crate) fn settlement(key: &str) -> Settlement {
    let draft = draft(key);
    Settlement {
        id: id(key),
        attempt: Attempt { id: draft.attempt_id, kind: AttemptKind::First },
        known: Known::Unsure { expect: oncegate::domain::ledger::Expect::Absent, draft: Box::new(draft) },
        came: Came::NotRun,
        terms: Terms {
            ttl: std::time::Duration::from_hours(1),
            lease: std::time::Duration::from_mins(1),
            upstream_timeout: std::time::Duration::from_mins(1),
            downstream: Downstream::Unsafe,
            shared_within_tenant: false,
        },
        event: event(key),
        unsent: true,
    }
}

fn rows(count: usize) -> Vec<AuditEvent> {
    (0..count).map(|n| event(&format!("k{n}"))).collect()
}

async fn keep(spool: &Spool, rows: &[AuditEvent]) {
    for row in rows {
        spool.keep_row(row.clone(), None).await.expect("there is room");
    }
}

/// The rows that wait, and their numbers.
async fn waiting(spool: &Spool) -> (Vec<u64>, Vec<AuditEvent>) {
    let found = spool.read(0, usize::MAX).await.expect("the spool answers");
    let row = |record| match record {
        Record::Row(event) => *event,
        Record::Settlement(settlement) => settlement.event,
    };
    found.into_iter().map(|waiting| (waiting.number, row(waiting.record))).unzip()
}

/// Waits until what was said to be done is done.
async fn until_waiting(spool: &Spool, count: usize) {
    in_time("the spool", spool.waiting().wait_for(|waiting| *waiting == count)).await.expect("it is open");
}

#[tokio::test]
async fn what_was_kept_waits_in_its_order_through_a_restart_until_it_is_stored() {
    let (_folder, path) = place();
    let rows = rows(5);
    let spool = open(&path).await;
    keep(&spool, &rows[..2]).await;
    let settled = settlement("s");
    spool.keep_settlement(settled.clone()).await.expect("there is room");
    keep(&spool, &rows[2..]).await;
    let second = Spool::open(&path, LARGE, meter()).await.expect_err("one process has it");
    assert!(matches!(second, SpoolFault::Taken { .. }), "{second}");
    drop(spool);

    let spool = open(&path).await;
    let (numbers, found) = waiting(&spool).await;
    let expected = [&rows[..2], &[settled.event], &rows[2..]].concat();
    assert_eq!(found, expected);
    spool.done(numbers[..4].to_vec());
    until_waiting(&spool, 2).await;
    assert_eq!(waiting(&spool).await.1, expected[4..]);
    assert!(fs::metadata(&path).expect("the file").len() > 0);
    spool.done(numbers[4..].to_vec());
    until_waiting(&spool, 0).await;
    assert_eq!(fs::metadata(&path).expect("the file").len(), 0, "with nothing waiting it is empty");
    keep(&spool, &rows[..1]).await;
    assert_eq!(waiting(&spool).await.1, rows[..1]);
}

#[tokio::test]
async fn a_file_that_ends_in_the_middle_of_a_record_has_every_record_before_it() {
    let (folder, path) = place();
    let rows = rows(3);
    let spool = open(&path).await;
    keep(&spool, &rows[..2]).await;
    let synced = fs::read(&path).expect("the file").len();
    keep(&spool, &rows[2..]).await;
    drop(spool);
    let whole = fs::read(&path).expect("the file");
    // Every byte of its head, and some of the rest; the frames' own tests have them all.
    for end in (synced..synced + 25).chain((synced + 25..whole.len()).step_by(31)) {
        let cut = folder.path().join(format!("cut{end}"));
        fs::write(&cut, &whole[..end]).expect("a file");
        let spool = open(&cut).await;
        assert_eq!(waiting(&spool).await.1, rows[..2], "cut at {end}");
        // What comes next is readable, too.
        keep(&spool, &rows[2..]).await;
        drop(spool);
        assert_eq!(waiting(&open(&cut).await).await.1, rows, "cut at {end}");
        assert!(!folder.path().join(format!("cut{end}.damaged-1")).exists(), "cut at {end}");
    }
}

#[tokio::test]
async fn a_damaged_record_is_kept_aside_and_keeps_nobody_else_waiting() {
    let (folder, path) = place();
    let rows = rows(3);
    let spool = open(&path).await;
    keep(&spool, &rows).await;
    drop(spool);
    let whole = fs::read(&path).expect("the file");
    let each = whole.len() / 3;
    for place in (0..whole.len()).step_by(29) {
        let (of, mut bytes) = (place / each, whole.clone());
        bytes[place] ^= 0x55;
        let damaged = folder.path().join(format!("damaged{place}"));
        fs::write(&damaged, &bytes).expect("a file");
        let spool = open(&damaged).await;
        let left: Vec<_> =
            rows.iter().enumerate().filter(|(n, _)| *n != of).map(|(_, row)| row.clone()).collect();
        assert_eq!(waiting(&spool).await.1, left, "byte {place}");
        drop(spool);
        let aside = folder.path().join(format!("damaged{place}.damaged-1"));
        assert_eq!(fs::read(aside).expect("the file as it was"), bytes, "byte {place}");
        // The second time all is well.
        assert_eq!(waiting(&open(&damaged).await).await.1, left, "byte {place}");
        assert!(!folder.path().join(format!("damaged{place}.damaged-2")).exists());
    }
}

#[tokio::test]
async fn a_record_of_a_later_version_is_kept_aside_too() {
    let (folder, path) = place();
    let spool = open(&path).await;
    keep(&spool, &rows(1)).await;
    drop(spool);
    // A whole frame whose record means nothing here: the head's and the record's own sums are right.
    let mut bytes = fs::read(&path).expect("the file");
    let record = br#"{"dream":{}}"#;
    let mut frame = vec![0xff, b'O', b'G', 1];
    frame.extend(u32::try_from(record.len()).expect("it is short").to_le_bytes());
    frame.extend((bytes.len() as u64).to_le_bytes());
    frame.extend(crc32fast::hash(&frame).to_le_bytes());
    frame.extend(crc32fast::hash(record).to_le_bytes());
    frame.extend(record);
    bytes.extend(frame);
    fs::write(&path, &bytes).expect("the file");
    let spool = open(&path).await;
    assert_eq!(waiting(&spool).await.1.len(), 1);
    assert_eq!(fs::read(folder.path().join("spool.damaged-1")).expect("the file as it was"), bytes);
}

#[tokio::test]
async fn a_full_spool_refuses_rows_first_and_has_room_again_for_what_was_stored() {
    let (_folder, path) = place();
    let limit = 16 << 10;
    let spool = Spool::open(&path, limit, meter()).await.expect("a spool");
    let mut kept = 0;
    let refused = loop {
        match spool.keep_row(event("k"), None).await {
            Ok(()) => kept += 1,
            Err(fault) => break fault,
        }
    };
    assert!(kept > 5, "{kept}");
    assert!(matches!(refused, SpoolFault::Full { .. }), "{refused}");
    assert_eq!(
        refused.to_string(),
        format!("the spool {} is full: audit.spool_limit is 16KiB", path.display())
    );
    assert!(matches!(spool.room(&event("k")), Err(SpoolFault::Full { .. })));
    spool.keep_settlement(settlement("s")).await.expect("rows leave room to settlements");
    let mut settlements = 1;
    while spool.keep_settlement(settlement("s")).await.is_ok() {
        settlements += 1;
    }
    assert!(fs::metadata(&path).expect("the file").len() <= limit);
    // What was drained makes room, though the file as a whole was never empty.
    let (numbers, _) = waiting(&spool).await;
    spool.done(numbers[..kept].to_vec());
    until_waiting(&spool, settlements).await;
    for n in 0..3 {
        spool.keep_row(event(&format!("later{n}")), None).await.expect("there is room again");
    }
    assert!(fs::metadata(&path).expect("the file").len() <= limit);
    drop(spool);
    let keys: Vec<_> = waiting(&open(&path).await).await.1;
    assert_eq!(keys.len(), settlements + 3);
    assert_eq!(keys.last().and_then(|row| row.facts.idempotency_key.clone()), Some("later2".to_owned()));
}

#[tokio::test]
async fn a_disk_that_takes_nothing_refuses_rooms_until_it_does_and_costs_nothing_that_was_acknowledged() {
    // This process is the test's own, so its limit is. Whoever hears the signal goes on, and the write fails.
    let _heard = signal(SignalKind::from_raw(SIGXFSZ)).expect("the signal");
    let (_folder, path) = place();
    let spool = open(&path).await;
    limit_files(Some(32 << 10));
    let mut kept = 0;
    let refused = loop {
        match spool.keep_row(event("k"), None).await {
            Ok(()) => kept += 1,
            Err(fault) => break fault,
        }
    };
    assert!(matches!(refused, SpoolFault::NotWritten { .. }) && kept > 5, "{refused} after {kept}");
    let told = spool.room(&event("k")).expect_err("no call is begun whose row has no place");
    assert!(matches!(told, SpoolFault::NotWritten { .. }), "{told}");
    limit_files(None);
    eventually("the disk to be tried again", async || spool.room(&event("k")).ok()).await;
    spool.keep_row(event("later"), None).await.expect("it takes it");
    drop(spool);
    assert_eq!(waiting(&open(&path).await).await.1.len(), kept + 1);
}

/// How large a file of this process may become, in bytes.
fn limit_files(most: Option<u64>) {
    let most = most.map_or("unlimited".to_owned(), |most| most.to_string());
    let pid = std::process::id().to_string();
    let mut prlimit = std::process::Command::new("prlimit");
    let set = prlimit.args(["--pid", &pid, &format!("--fsize={most}:unlimited")]).status();
    assert!(set.expect("prlimit, of util-linux").success());
}

/// Does this while so many more files can be opened. This process is the test's own, so its limit is.
async fn with_files_left<T>(left: usize, work: impl Future<Output = T>) -> T {
    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..usual }).expect("a lower limit");
    let mut taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    taken.truncate(taken.len() - left);
    let done = work.await;
    drop(taken);
    setrlimit(Resource::Nofile, usual).expect("the limit as it was");
    done
}

#[tokio::test]
async fn a_spool_that_was_made_smaller_writes_to_the_file_that_has_its_name_whatever_cannot_be_opened() {
    let (_folder, path) = place();
    let spool = Spool::open(&path, 16 << 10, meter()).await.expect("a spool");
    while spool.keep_row(event("k"), None).await.is_ok() {}
    let (numbers, _) = waiting(&spool).await;
    spool.done(numbers[1..].to_vec());
    until_waiting(&spool, 1).await;
    with_files_left(1, spool.keep_row(event("later0"), None)).await.expect("there is room");
    spool.keep_row(event("later1"), None).await.expect("there is room");
    drop(spool);
    let found = waiting(&open(&path).await).await.1;
    let keys: Vec<_> = found.into_iter().filter_map(|row| row.facts.idempotency_key).collect();
    assert_eq!(keys, ["k", "later0", "later1"]);
}

#[tokio::test]
async fn a_record_damaged_while_the_spool_is_open_is_kept_aside_and_keeps_nobody_else_waiting() {
    let (folder, path) = place();
    let rows = rows(4);
    let spool = open(&path).await;
    keep(&spool, &rows).await;
    let mut bytes = fs::read(&path).expect("the file");
    let second = bytes.len() / 4;
    bytes[second + 60] ^= 0x55;
    fs::write(&path, &bytes).expect("the same file");
    let left = [&rows[..1], &rows[2..]].concat();
    // As long as it can be put nowhere else, it stays where it is.
    assert_eq!(with_files_left(0, waiting(&spool)).await.1, left);
    until_waiting(&spool, 3).await;
    assert_eq!(fs::read(&path).expect("the file"), bytes);
    let (numbers, found) = waiting(&spool).await;
    assert_eq!(found, left);
    keep(&spool, &rows[1..2]).await;
    spool.done(numbers);
    until_waiting(&spool, 1).await;
    spool.done(waiting(&spool).await.0);
    until_waiting(&spool, 0).await;
    let kept = fs::read(folder.path().join("spool.damaged-1")).expect("the file as it was");
    assert!(kept.starts_with(&bytes), "with what came behind");
    assert_eq!(fs::metadata(&path).expect("the file").len(), 0);
    assert_eq!(fs::metadata(folder.path().join("spool.damaged-2")).ok().map(|_| ()), None);
}

#[tokio::test]
async fn damage_that_was_kept_aside_is_told_once() {
    let (folder, path) = place();
    let rows = rows(4);
    let spool = open(&path).await;
    keep(&spool, &rows).await;
    let mut bytes = fs::read(&path).expect("the file");
    bytes[60] ^= 0x55;
    fs::write(&path, &bytes).expect("the same file");
    let first = spool.read(0, 1).await.expect("what can be read");
    assert_eq!(first.len(), 1, "those behind it are found in the same look");
    keep(&spool, &rows[..1]).await;
    drop(spool);
    assert_eq!(fs::read(folder.path().join("spool.damaged-1")).expect("the file as it was"), bytes);
    let spool = open(&path).await;
    assert_eq!(waiting(&spool).await.1, [&rows[1..], &rows[..1]].concat());
    assert!(!folder.path().join("spool.damaged-2").exists());
}

#[tokio::test]
async fn one_process_has_the_spool_though_its_name_is_a_link_to_where_nothing_was() {
    let (folder, path) = place();
    let link = folder.path().join("link");
    symlink(&path, &link).expect("a link");
    let (rows, spool) = (rows(1), open(&link).await);
    keep(&spool, &rows).await;
    for name in [&link, &path] {
        let second = Spool::open(name, LARGE, meter()).await.expect_err("one process has it");
        assert!(matches!(second, SpoolFault::Taken { .. }), "{second}");
    }
    drop(spool);
    assert_eq!(waiting(&open(&path).await).await.1, rows);
}

#[tokio::test]
async fn room_that_was_promised_to_a_row_is_there_whoever_else_comes() {
    let (_folder, path) = place();
    let spool = Spool::open(&path, 64 << 10, meter()).await.expect("a spool");
    let room = spool.room(&event("promised")).expect("there is room");
    while spool.keep_row(event("other"), None).await.is_ok() {}
    spool.keep_row(event("promised"), Some(room)).await.expect("it was promised");
    let rooms: Vec<_> = std::iter::from_fn(|| spool.room(&event("k")).ok()).collect();
    assert!(rooms.is_empty(), "rows have taken what is theirs");
}

#[tokio::test]
async fn a_thousand_at_once_are_all_there_and_share_their_syncs() {
    let (_folder, path) = place();
    let spool = open(&path).await;
    let keeping: Vec<_> = (0..1000)
        .map(|n| {
            let spool = spool.clone();
            tokio::spawn(async move { spool.keep_row(event(&format!("k{n}")), None).await })
        })
        .collect();
    for kept in keeping {
        in_time("a row", kept).await.expect("it does not panic").expect("there is room");
    }
    drop(spool);
    let mut keys: Vec<_> =
        waiting(&open(&path).await).await.1.into_iter().filter_map(|row| row.facts.idempotency_key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 1000);
}

#[tokio::test]
async fn the_file_is_its_owners_alone_and_its_place_must_exist() {
    let (folder, path) = place();
    let spool = open(&path).await;
    keep(&spool, &rows(1)).await;
    for end in ["", ".lock"] {
        let mode = fs::metadata(format!("{}{end}", path.display())).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{end} {mode:o}");
    }
    let nowhere = folder.path().join("no/such/spool");
    let told = Spool::open(&nowhere, LARGE, meter()).await.expect_err("there is no such folder");
    assert!(matches!(&told, SpoolFault::Unusable { file, .. } if *file == nowhere), "{told}");
}
