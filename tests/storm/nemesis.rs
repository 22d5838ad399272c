//! The nemesis: it breaks one thing after the other, on a schedule drawn from the seed.
//!
//! Promises: whatever it does ends within seconds, and is undone before [`Nemesis::rage`] returns; no two of its faults
//! are about the same process at a time; each stands in the history.

mod weather;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

use crate::Fallible;
use crate::disk::Disk;
use crate::gates::Gate;
use crate::ground::{Ground, family};
use crate::history::{Fault, History, How};
use crate::postgres::Postgres;
use crate::upstream::Upstream;

/// What can be broken.
pub(crate) struct Nemesis {
    pub(crate) history: Arc<History>,
    pub(crate) ground: Arc<Ground>,
    pub(crate) gates: Arc<Vec<Gate>>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) postgres: Option<Arc<Postgres>>,
    /// The disk that the store is on, where it may be filled.
    pub(crate) disk: Option<Disk>,
    pub(crate) busy: Busy,
}

/// What is broken already.
#[derive(Default)]
pub(crate) struct Busy {
    store: Mutex<()>,
    upstream: Mutex<()>,
    over: AtomicBool,
}

/// What it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    KillGate,
    FreezeGate,
    StopGate,
    DrainGate,
    Weather,
    CrashUpstream,
    CrashPostgres,
    FreezePostgres,
    FillDisk,
}

const DEEDS: [(u32, Deed); 9] = [
    (16, Deed::KillGate),
    (14, Deed::FreezeGate),
    (4, Deed::StopGate),
    (4, Deed::DrainGate),
    (36, Deed::Weather),
    (5, Deed::CrashUpstream),
    (5, Deed::CrashPostgres),
    (5, Deed::FreezePostgres),
    (10, Deed::FillDisk),
];

impl Nemesis {
    /// Breaks things until the time is over, then mends them all.
    pub(crate) async fn rage(self: Arc<Self>, mut rng: Rng, until: Instant) -> Fallible<()> {
        let mut faults: JoinSet<Fallible<()>> = JoinSet::new();
        let mut watching = JoinSet::new();
        watching.spawn(Arc::clone(&self).watch());
        // Not before there is something to break.
        sleep(Duration::from_millis(700)).await;
        // A lone gate that is always down tries nothing.
        let (at_a_time, pause) = if self.gates.len() > 1 { (4, 900) } else { (2, 2400) };
        while Instant::now() < until {
            if faults.len() < at_a_time {
                let (deed, rng) = (self.draw(&mut rng), rng.fork());
                faults.spawn(Arc::clone(&self).carry_out(deed, rng));
            }
            sleep(Duration::from_millis(rng.u64(100..pause))).await;
            while let Some(ended) = faults.try_join_next() {
                ended??;
            }
        }
        while let Some(ended) = faults.join_next().await {
            ended??;
        }
        self.busy.over.store(true, Ordering::SeqCst);
        watching.join_next().await.unwrap_or(Ok(Ok(())))?
    }

    fn draw(&self, rng: &mut Rng) -> Deed {
        let possible = |deed: Deed| match deed {
            Deed::CrashPostgres | Deed::FreezePostgres => self.postgres.is_some(),
            Deed::FillDisk => self.disk.is_some(),
            Deed::KillGate
            | Deed::FreezeGate
            | Deed::StopGate
            | Deed::DrainGate
            | Deed::Weather
            | Deed::CrashUpstream => true,
        };
        let deeds: Vec<_> = DEEDS.into_iter().filter(|(_, deed)| possible(*deed)).collect();
        let all: u32 = deeds.iter().map(|(weight, _)| weight).sum();
        let mut left = rng.u32(..all);
        for (weight, deed) in deeds {
            if left < weight {
                return deed;
            }
            left -= weight;
        }
        Deed::Weather
    }

    /// Nothing where somebody is busy with the same thing.
    async fn carry_out(self: Arc<Self>, deed: Deed, mut rng: Rng) -> Fallible<()> {
        let gate = &self.gates[rng.usize(..self.gates.len())];
        let from = self.history.now();
        let done = match deed {
            Deed::KillGate => self.kill(gate, &mut rng).await?,
            Deed::FreezeGate => Self::freeze(gate, &mut rng).await?,
            Deed::StopGate => Self::stop(gate, &mut rng, false).await?,
            Deed::DrainGate => Self::stop(gate, &mut rng, true).await?,
            Deed::Weather => return self.weather(gate, &mut rng).await,
            Deed::CrashUpstream => self.crash_upstream(&mut rng).await?,
            Deed::CrashPostgres => self.crash_postgres(&mut rng).await?,
            Deed::FreezePostgres => self.freeze_postgres(&mut rng).await?,
            Deed::FillDisk => self.fill_disk(&mut rng).await?,
        };
        if done {
            let (kind, of_gate) = match deed {
                Deed::KillGate => ("gate killed", true),
                Deed::FreezeGate => ("gate frozen", true),
                Deed::StopGate => ("gate stopped", true),
                Deed::DrainGate => ("gate drained", true),
                Deed::CrashUpstream => ("upstream crashed", false),
                Deed::CrashPostgres => ("Postgres crashed", false),
                Deed::FreezePostgres => ("Postgres frozen", false),
                Deed::FillDisk => ("disk full", false),
                Deed::Weather => return Ok(()),
            };
            self.note(kind, of_gate.then_some(gate.number), from);
        }
        Ok(())
    }

    fn note(&self, kind: &'static str, gate: Option<usize>, from: Duration) {
        let to = self.history.now();
        self.history.open().faults.push(Fault { kind, gate, from, to });
    }

    async fn kill(&self, gate: &Gate, rng: &mut Rng) -> Fallible<bool> {
        let Some(mut process) = gate.spare() else { return Ok(false) };
        process.kill().await;
        sleep(Duration::from_millis(rng.u64(20..900))).await;
        process.start()?;
        Ok(true)
    }

    async fn freeze(gate: &Gate, rng: &mut Rng) -> Fallible<bool> {
        let Some(process) = gate.spare() else { return Ok(false) };
        process.freeze(Duration::from_millis(rng.u64(400..4500))).await?;
        Ok(true)
    }

    async fn stop(gate: &Gate, rng: &mut Rng, drains: bool) -> Fallible<bool> {
        let Some(mut process) = gate.spare() else { return Ok(false) };
        if drains {
            process.drain().await;
        } else {
            process.stop().await;
        }
        sleep(Duration::from_millis(rng.u64(20..400))).await;
        process.start()?;
        Ok(true)
    }

    async fn crash_upstream(&self, rng: &mut Rng) -> Fallible<bool> {
        let Ok(_busy) = self.busy.upstream.try_lock() else { return Ok(false) };
        self.upstream.crash().await;
        sleep(Duration::from_millis(rng.u64(50..1500))).await;
        self.upstream.recover().await?;
        Ok(true)
    }

    async fn crash_postgres(&self, rng: &mut Rng) -> Fallible<bool> {
        let (Some(postgres), Ok(_busy)) = (&self.postgres, self.busy.store.try_lock()) else {
            return Ok(false);
        };
        let (down, up) = (Arc::clone(postgres), Arc::clone(postgres));
        spawn_blocking(move || down.crash()).await?;
        sleep(Duration::from_millis(rng.u64(10..1500))).await;
        spawn_blocking(move || up.recover()).await?;
        Ok(true)
    }

    async fn freeze_postgres(&self, rng: &mut Rng) -> Fallible<bool> {
        let (Some(postgres), Ok(_busy)) = (&self.postgres, self.busy.store.try_lock()) else {
            return Ok(false);
        };
        let pids = family(postgres.postmaster()?);
        self.ground.stop("postgres", &pids)?;
        sleep(Duration::from_millis(rng.u64(300..6000))).await;
        self.ground.go_on("postgres", &pids);
        Ok(true)
    }

    /// Leaves no room on the disk that the SQLite file is on.
    async fn fill_disk(&self, rng: &mut Rng) -> Fallible<bool> {
        let (Some(disk), Ok(_busy)) = (&self.disk, self.busy.store.try_lock()) else { return Ok(false) };
        disk.fill()?;
        sleep(Duration::from_millis(rng.u64(200..2500))).await;
        disk.widen()?;
        Ok(true)
    }

    /// Starts gates again that ended by themselves.
    async fn watch(self: Arc<Self>) -> Fallible<()> {
        while !self.busy.over.load(Ordering::SeqCst) {
            for gate in self.gates.iter() {
                if let Some(mut process) = gate.spare()
                    && process.pid().is_none()
                {
                    process.start()?;
                }
            }
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

impl How {
    /// For the table.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::Drained => "drained",
            Self::Itself => "by itself",
        }
    }
}
