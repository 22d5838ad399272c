//! `oncegate migrate` and `oncegate prune`: what an operator does to the database.
//!
//! Promises: Ctrl-C ends either between two steps, and what was done is told; a bar is drawn on a terminal only.

use std::time::{Duration, Instant};

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::bar::{self, Bar};
use super::failure::Failure;
use super::open::{self, Opened};
use super::screen;
use crate::config::{ConfigFlags, RetentionConfig, period, period_text};
use crate::store::{AuditAge, Due, Floor, PruneOf};

/// Brings the schema up. Safe when many start at once, and when it is interrupted.
#[derive(Args)]
pub(super) struct Migrate {
    /// The shortest time for which a gate may keep the audit, from now on; forever: none may delete from it
    /// [the first time: audit.keep]
    #[arg(long, value_name = "DURATION", value_parser = floor)]
    audit_floor: Option<Wanted>,
    #[command(flatten)]
    config: ConfigFlags,
}

/// Deletes expired claims, never those in flight or unknown, and audit rows that are older than `audit.keep`.
#[derive(Args)]
pub(super) struct Prune {
    /// Only claims
    #[arg(long)]
    claims: bool,
    /// Only audit rows
    #[arg(long)]
    audit: bool,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// How many at a time: small batches never block a claim for long
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    #[command(flatten)]
    config: ConfigFlags,
}

/// A floor as it was typed; none: for ever.
#[derive(Clone, Copy)]
struct Wanted(Option<Duration>);

fn floor(text: &str) -> Result<Wanted, String> {
    period(text).map(Wanted)
}

/// Said where a migration was stopped.
const STOPPED: &str = "stopped; the store serves as before: `oncegate migrate` goes on where this one ended, and is to be \
    run within two weeks, since ids are bounded meanwhile";

impl Migrate {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let (store, retention) = open::for_migration(&self.config).await?;
        let (stop, bar) = (bar::interrupted()?, Bar::new());
        let tell = |news| bar.news(news);
        let version = tokio::select! {
            version = store.migrate_telling(&tell) => version?,
            () = stop.cancelled() => {
                bar.end();
                return Err(Failure::failed(STOPPED));
            }
        };
        bar.end();
        let (wanted, anew) = match self.audit_floor {
            Some(Wanted(floor)) => (floor, true),
            None => (retention.audit, false),
        };
        let floor = store.set_audit_floor(wanted, anew).await?;
        store.close().await;
        let floor = match floor {
            Floor::None => String::new(),
            Floor::At(floor) => format!("No gate deletes audit rows before {}.\n", period_text(Some(floor))),
            Floor::Forever => "No gate deletes audit rows.\n".to_owned(),
        };
        Ok(screen::show(&format!("The schema is at version {version}.\n{floor}"))?)
    }
}

impl Prune {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let opened = Opened::new(&self.config).await?;
        let retention = opened.layers.retention().map_err(Failure::config)?;
        let due = opened.store.due(retention.audit.filter(|_| self.means_audit())).await?;
        if self.dry_run {
            opened.store.close().await;
            return Ok(screen::show(&self.would(&due, retention))?);
        }
        let stop = bar::interrupted()?;
        let mut told = Vec::new();
        if self.means_claims() {
            let claims = self.delete_claims(&opened, due.claims, &stop).await?;
            told.push(format!("{claims} expired claims were deleted.\n"));
        }
        if self.means_audit() {
            told.extend(self.delete_audit(&opened, &due, retention, &stop).await?);
        }
        opened.store.close().await;
        screen::show(&told.concat())?;
        if stop.is_cancelled() {
            return Err(Failure::failed("stopped; what is left can be deleted by another `oncegate prune`"));
        }
        Ok(())
    }

    fn means_claims(&self) -> bool {
        self.claims || !self.audit
    }

    fn means_audit(&self) -> bool {
        self.audit || !self.claims
    }

    /// What is said instead of deleting.
    fn would(&self, due: &Due, retention: RetentionConfig) -> String {
        let mut told = Vec::new();
        if self.means_claims() {
            told.push(format!("{} expired claims would be deleted.\n", due.claims));
        }
        if self.means_audit() {
            let keep = period_text(retention.audit);
            told.push(format!("{} audit rows would be deleted one by one (audit.keep: {keep}).\n", due.rows));
            let weeks = due.partitions.iter();
            told.extend(
                weeks.map(|(week, rows)| format!("{week} would be dropped, with about {rows} audit rows.\n")),
            );
        }
        told.concat()
    }

    async fn delete_claims(
        &self,
        opened: &Opened,
        due: u64,
        stop: &CancellationToken,
    ) -> Result<u64, Failure> {
        let bar = Bar::of("claims", due);
        let mut of = PruneOf { batch: self.batch, from: None };
        let mut claims = 0;
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let pruned = opened.store.prune_claims(&of).await?;
            claims += pruned.claims;
            bar.at(claims);
            of.from = of.from.max(pruned.through);
            if pruned.claims < u64::from(self.batch) {
                break;
            }
            // Half of the time is the calls'.
            tokio::time::sleep(begun.elapsed()).await;
        }
        bar.end();
        Ok(claims)
    }

    async fn delete_audit(
        &self,
        opened: &Opened,
        due: &Due,
        retention: RetentionConfig,
        stop: &CancellationToken,
    ) -> Result<Vec<String>, Failure> {
        let of = AuditAge { keep: retention.audit, batch: self.batch };
        let bar = Bar::of("audit rows", due.rows);
        let (mut rows, mut told, mut busy) = (0, Vec::new(), false);
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let kept = opened.store.keep_audit(&of).await?;
            busy = kept.busy;
            match &kept.dropped {
                Some(partition) => {
                    told.push(format!("{partition} was dropped, with about {} audit rows.\n", kept.deleted));
                }
                None => rows += kept.deleted,
            }
            bar.at(rows);
            if !kept.more {
                break;
            }
            tokio::time::sleep(begun.elapsed()).await;
        }
        bar.end();
        told.push(format!("{rows} audit rows were deleted one by one.\n"));
        if busy {
            told.push("Somebody else holds the audit: what is left is for the next time.\n".to_owned());
        }
        Ok(told)
    }
}
