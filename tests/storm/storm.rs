//! One storm, from its ground to its verdict.
//!
//! Promises: clients, nemesis and sampler run side by side; then everything is mended, every intent is brought to an
//! end, the gates are stopped in an orderly way, and only then the tables are read as they stay.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::Fallible;
use crate::checker::{self, Verdict};
use crate::clients::Crowd;
use crate::disk::Disk;
use crate::gates::{Gate, JWT_SECRET, Site};
use crate::ground::Ground;
use crate::history::{Events, History, Name, Row, Sample};
use crate::intents::POLICY;
use crate::ledger::Ledger;
use crate::nemesis::{Busy, Nemesis};
use crate::options::{Plan, Store};
use crate::postgres::Postgres;
use crate::upstream::Upstream;

/// How long claims may stay in flight once all is well: a lease, an attempt's time, and a little.
const SETTLING: Duration = Duration::from_secs(10);

/// Between two looks at the claims.
const LOOK: Duration = Duration::from_millis(150);

/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(15);

/// How much longer than it blows a storm may take. One that hangs is an error, and no quiet night.
const AT_MOST: Duration = Duration::from_mins(5);

/// Blows it.
pub(crate) async fn run(plan: &Plan) -> Fallible<(Events, Verdict)> {
    let limit = plan.blows * 2 + AT_MOST;
    timeout(limit, whole(plan)).await.map_err(|_| format!("the storm did not end within {limit:?}"))?
}

async fn whole(plan: &Plan) -> Fallible<(Events, Verdict)> {
    let ground = Arc::new(Ground::lay()?);
    let history = Arc::new(History::begin());
    let mut rng = Rng::with_seed(plan.seed);
    let upstream = Arc::new(Upstream::start(Arc::clone(&history), rng.fork()).await?);
    let postgres = match plan.store {
        Store::Postgres => Some(Arc::new(Postgres::start().await?)),
        Store::Sqlite => None,
    };
    let disk = match plan.store {
        Store::Postgres => None,
        Store::Sqlite => Disk::mount(&ground.path("disk")),
    };
    if plan.store == Store::Sqlite && disk.is_none() {
        println!("SKIPPED: the full disk. This machine lets nobody mount a tmpfs; run the storm as root.");
    }
    fs::write(ground.path("secret"), "0123456789abcdef0123456789abcdef")?;
    fs::write(ground.path("jwt"), JWT_SECRET)?;
    fs::write(ground.path("policies/storm.toml"), POLICY)?;
    let site = Site {
        plan,
        ground: &ground,
        history: &history,
        upstream: upstream.address(),
        postgres: postgres.as_ref().map(|postgres| postgres.address()),
    };
    let mut gates = Vec::new();
    for number in 0..plan.gates {
        gates.push(Gate::put_up(&site, number).await?);
    }
    let gates = Arc::new(gates);
    if postgres.is_some() {
        gates[0].process.lock().await.run("migrate").await?;
    }
    ready(&gates).await?;
    let ledger = match &postgres {
        Some(postgres) => Ledger::Postgres(postgres.url()),
        None => Ledger::Sqlite(ground.path("disk/oncegate.db")),
    };
    let nemesis = Nemesis {
        history: Arc::clone(&history),
        ground: Arc::clone(&ground),
        gates: Arc::clone(&gates),
        upstream: Arc::clone(&upstream),
        // It lasts longer than whoever breaks it.
        postgres: postgres.clone(),
        disk,
        busy: Busy::default(),
    };
    let crowd = Arc::new(Crowd::of(Arc::clone(&gates), Arc::clone(&history), plan.seed)?);
    let mut sampling = JoinSet::new();
    sampling.spawn(sample(Arc::clone(&history), ledger.clone()));
    let blown = tokio::select! {
        blown = blow(plan, &crowd, nemesis, rng) => blown.map(|()| None),
        found = found(plan, &history, &ledger) => Ok(Some(found)),
    };
    if let Some(found) = blown? {
        // Whoever had stopped something was ended himself.
        ground.wake_all();
        return Ok(found);
    }
    upstream.calm_down();
    ready(&gates).await?;
    println!("  calm after {} s; bringing every intent to its end", history.now().as_secs());
    history.open().stranded = settled(&ledger).await?;
    crowd.finish(plan.clients, Duration::from_secs(30) + plan.blows / 2).await;
    for gate in gates.iter() {
        gate.process.lock().await.stop().await;
    }
    sampling.shutdown().await;
    let (claims, audit) = (ledger.claims(None).await?, ledger.audit().await?);
    let mut events = history.so_far();
    (events.claims, events.audit, events.ended) = (claims, audit, true);
    let verdict = checker::check(&events);
    Ok((events, verdict))
}

/// Clients and nemesis, side by side; dropped, they end.
async fn blow(plan: &Plan, crowd: &Arc<Crowd>, nemesis: Nemesis, mut rng: Rng) -> Fallible<()> {
    let until = Instant::now() + plan.blows;
    let mut telling = JoinSet::new();
    telling.spawn(tell(Arc::clone(&nemesis.history)));
    let mut blowing = JoinSet::new();
    blowing.spawn(Arc::new(nemesis).rage(rng.fork(), until));
    let storming = Arc::clone(crowd).storm(plan.clients, until);
    blowing.spawn(async move {
        storming.await;
        Ok(())
    });
    while let Some(ended) = blowing.join_next().await {
        ended??;
    }
    Ok(())
}

/// Waits until all gates are ready.
async fn ready(gates: &[Gate]) -> Fallible<()> {
    for gate in gates {
        gate.process.lock().await.ready().await?;
    }
    Ok(())
}

/// Says how far it is, once in a while.
async fn tell(history: Arc<History>) {
    loop {
        sleep(PROGRESS).await;
        let (now, events) = (history.now().as_secs(), history.open());
        let (intents, calls, faults) = (events.intents, events.calls.len(), events.faults.len());
        println!("  {now} s: {intents} intents, {calls} calls, {faults} faults");
    }
}

/// Looks at the claims again and again, and writes down what has changed.
async fn sample(history: Arc<History>, ledger: Ledger) {
    let mut last: HashMap<Name, Row> = HashMap::new();
    let mut looks = 0_u32;
    loop {
        // The young ones change; the old ones are looked at less often.
        let young = (!looks.is_multiple_of(40)).then_some(15);
        looks = looks.wrapping_add(1);
        let asked = history.now();
        // While the store is down there is nothing to be seen.
        if let Ok(rows) = ledger.claims(young).await {
            let at = history.now();
            for row in rows {
                if last.get(&row.name) != Some(&row) {
                    last.insert(row.name.clone(), row.clone());
                    history.open().samples.push(Sample { asked, at, row });
                }
            }
        }
        sleep(LOOK).await;
    }
}

/// Waits until nothing is in flight any more; what still is after that long is stranded.
async fn settled(ledger: &Ledger) -> Fallible<Vec<Name>> {
    let until = Instant::now() + SETTLING;
    loop {
        let claims = ledger.claims(None).await?;
        let open: Vec<_> = claims.into_iter().filter(|row| row.status == "in_flight").collect();
        if open.is_empty() || Instant::now() > until {
            return Ok(open.into_iter().map(|row| row.name).collect());
        }
        sleep(LOOK).await;
    }
}

/// Checks what is known so far, again and again, until there is a violation; never where nobody waits for one.
async fn found(plan: &Plan, history: &History, ledger: &Ledger) -> (Events, Verdict) {
    loop {
        if !plan.until_found {
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_secs(2)).await;
        let mut events = history.so_far();
        // Read after the calls: what was answered by then was written down by then.
        let Ok(audit) = ledger.audit().await else { continue };
        events.audit = audit;
        let verdict = checker::check(&events);
        if !verdict.violations.is_empty() {
            return (events, verdict);
        }
    }
}
