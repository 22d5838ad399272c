//! Rows as they come.
//!
//! Promises: no row is left out and none is shown twice, though rows do not appear in the order of their times: a row has
//! the time at which its transaction began, and appears when that is committed. So each look goes back a little behind the
//! newest row that was seen, every few looks by [`LATE`], and what was shown is known by its id. A row that needs longer
//! than [`LATE`] to be committed would be missed; the gate gives up on a statement long before.
//!
//! A store that is away is said to be, once, and asked again until it is back. Ctrl-C, and a reader that has gone, end it
//! well.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use tokio::io::{Interest, Ready};
use tokio::net::unix::pipe;
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;

use super::super::failure::Failure;
use super::super::screen;
use super::Form;
use crate::domain::chain::Chain;
use crate::domain::ledger::ClaimId;
use crate::domain::time::Timestamp;
use crate::store::{AuditFilter, Cursor, RecordedEvent, Store, StoreError};

/// How often the store is asked.
const EVERY: Duration = Duration::from_millis(500);

/// How far behind the newest row most looks go.
const A_LITTLE: Duration = Duration::from_secs(3);

/// How far behind it a row may still appear.
const LATE: Duration = Duration::from_mins(1);

/// One look of so many goes back by [`LATE`].
const SWEEP: u32 = 8;

/// How many rows are asked for at once.
const PAGE: u32 = 1000;

/// What was seen, and from where on to look.
struct Follower<'a> {
    store: &'a dyn Store,
    filter: AuditFilter,
    newest: Timestamp,
    seen: HashMap<Uuid, Timestamp>,
    looks: u32,
}

/// Shows the newest rows that fit, then those that come.
pub(super) async fn run(store: &dyn Store, filter: AuditFilter, mut form: Form) -> Result<(), Failure> {
    let (mut follower, shown) = Follower::begin(store, filter).await?;
    if !screen::show_to_reader(&form.put(&shown)?)? {
        return Ok(());
    }
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_away = false;
    let stopped = tokio::signal::ctrl_c();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            _ = &mut stopped => return Ok(()),
            () = reader_gone() => return Ok(()),
            _ = ticks.tick() => {}
        }
        match follower.look().await {
            Ok(rows) => {
                if is_away {
                    is_away = false;
                    screen::tell("The store answers again; what was written meanwhile follows.");
                }
                if !rows.is_empty() && !screen::show_to_reader(&form.put(&rows)?)? {
                    return Ok(());
                }
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Uncertain(_))) => {
                if !is_away {
                    is_away = true;
                    screen::tell(&format!("{}. It is asked again until it answers.", Chain(&error)));
                }
            }
            Err(error @ (StoreError::Corrupt(_) | StoreError::Unfit(_))) => return Err(error.into()),
        }
    }
}

impl<'a> Follower<'a> {
    /// With the newest rows that there are. Those that are too old for the limit are not shown later either.
    async fn begin(
        store: &'a dyn Store,
        filter: AuditFilter,
    ) -> Result<(Self, Vec<RecordedEvent>), StoreError> {
        let nobody = String::new;
        let nothing = ClaimId { tenant: nobody(), service: nobody(), tool: nobody(), key: nobody() };
        let now = store.read(&nothing).await?.now;
        // "A minute ago" is when it was asked for.
        let from = filter.from.or_else(|| filter.since.map(|since| now.minus(since)));
        let filter = AuditFilter { from, since: None, ..filter };
        let mut follower =
            Self { store, filter: filter.clone(), newest: now, seen: HashMap::new(), looks: 0 };
        // First, so that a row which appears between the two questions is shown by this list or by the next look.
        follower.behind(LATE).await?;
        let shown = store.events(&filter).await?;
        follower.note(&shown);
        Ok((follower, shown))
    }

    /// What has appeared since the last look.
    async fn look(&mut self) -> Result<Vec<RecordedEvent>, StoreError> {
        self.looks = self.looks.wrapping_add(1);
        self.behind(if self.looks.is_multiple_of(SWEEP) { LATE } else { A_LITTLE }).await
    }

    /// What nobody has seen of the rows from this far behind the newest one on.
    async fn behind(&mut self, back: Duration) -> Result<Vec<RecordedEvent>, StoreError> {
        let mut place = Cursor::before(self.newest.minus(back));
        let mut fresh = Vec::new();
        loop {
            let filter = AuditFilter { after: Some(place), limit: PAGE, ..self.filter.clone() };
            let page = self.store.events(&filter).await?;
            let is_last = page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            place = page.last().map_or(place, RecordedEvent::cursor);
            fresh.extend(page.into_iter().filter(|row| !self.seen.contains_key(&row.event.id)));
            if is_last {
                break;
            }
        }
        self.note(&fresh);
        let oldest = self.newest.minus(LATE);
        self.seen.retain(|_, at| *at >= oldest);
        Ok(fresh)
    }

    fn note(&mut self, rows: &[RecordedEvent]) {
        self.seen.extend(rows.iter().map(|row| (row.event.id, row.at)));
        self.newest = rows.iter().map(|row| row.at).fold(self.newest, Timestamp::max);
    }
}

/// Ends when nobody reads standard output any more; never where that cannot be known before something is written.
async fn reader_gone() {
    // A second handle, only to be told: nothing is written by it, and it leaves the first one as it is.
    let out = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked);
    if let Ok(out) = out
        && out.ready(Interest::ERROR).await.is_ok_and(Ready::is_error)
    {
        return;
    }
    std::future::pending::<()>().await;
}
