//! What is asked of both tables, and what one of it costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oncegate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use oncegate::domain::ledger::{ClaimId, Draft, Expect, Round, Status};
use oncegate::domain::time::When;
use oncegate::store::{
    AuditAge, AuditFilter, LapsedOf, PruneOf, Store, StoreError, Swap, TwinOf, UnknownOf, Write, event_id,
};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::Fault;

/// A database, filled.
pub(crate) struct Site {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) owner: Client,
    pub(crate) rows: u64,
}

/// One kind of question.
#[derive(Clone, Copy)]
pub(crate) enum Ask {
    Claim,
    Settle,
    Replay,
    Twin,
    Lapsed,
    Unknown,
    Prune,
    Row,
    KeyRows,
    NewestRows,
    KeepAudit,
}

impl Ask {
    pub(crate) const ALL: [Self; 11] = [
        Self::Claim,
        Self::Settle,
        Self::Replay,
        Self::Twin,
        Self::Lapsed,
        Self::Unknown,
        Self::Prune,
        Self::Row,
        Self::KeyRows,
        Self::NewestRows,
        Self::KeepAudit,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claim => "a fresh claim",
            Self::Settle => "its settlement, with its audit row",
            Self::Replay => "a replay of any key",
            Self::Twin => "a look for twins",
            Self::Lapsed => "a look for dead owners",
            Self::Unknown => "a look for unknown claims",
            Self::Prune => "an expired claim pruned, in batches of 500",
            Self::Row => "an audit row alone",
            Self::KeyRows => "the audit of any key",
            Self::NewestRows => "the newest 50 audit rows of all tenants",
            Self::KeepAudit => "a step of the audit's upkeep with nothing to do",
        }
    }

    /// What one costs, of some.
    pub(crate) async fn cost(self, site: &Site, round: usize) -> Result<Duration, Fault> {
        let keys: Vec<String> = (0..200).map(|n| format!("new-{}-{round}-{n}", Uuid::new_v4())).collect();
        match self {
            Self::Claim => claim(site, &keys).await,
            Self::Settle => settle(site, &keys).await,
            Self::Replay => replay(site).await,
            Self::Twin => twin(site).await,
            Self::Lapsed => {
                let of = LapsedOf { service: "billing".into(), lease: Duration::from_mins(1), limit: 100 };
                each(0..50, async |_| site.store.lapsed(&of).await.map(drop)).await
            }
            Self::Unknown => {
                let of =
                    UnknownOf { service: "billing".into(), tools: vec!["refund_order".into()], limit: 20 };
                each(0..50, async |_| site.store.unknown(&of).await.map(drop)).await
            }
            Self::Prune => prune(site).await,
            Self::Row => each(keys.iter(), async |key| site.store.append(event(key)).await).await,
            Self::KeyRows => {
                let asked: Vec<AuditFilter> = (0..20).map(|_| rows_of(site)).collect();
                each(asked.iter(), async |filter| site.store.events(filter).await.map(drop)).await
            }
            Self::NewestRows => {
                let filter = AuditFilter { limit: 50, ..AuditFilter::default() };
                each(0..20, async |_| site.store.events(&filter).await.map(drop)).await
            }
            Self::KeepAudit => {
                let of = AuditAge { keep: Some(Duration::from_hours(24 * 400)), batch: 500 };
                each(0..20, async |_| site.store.keep_audit(&of).await.map(drop)).await
            }
        }
    }
}

/// What one of these costs.
async fn each<T>(
    asked: impl ExactSizeIterator<Item = T>,
    mut ask: impl AsyncFnMut(T) -> Result<(), StoreError>,
) -> Result<Duration, Fault> {
    let count = asked.len();
    let begun = Instant::now();
    for one in asked {
        ask(one).await?;
    }
    Ok(share(begun, count))
}

async fn claim(site: &Site, keys: &[String]) -> Result<Duration, Fault> {
    let begun = Instant::now();
    for key in keys {
        applied(site.store.swap(fresh(key)).await?)?;
    }
    Ok(share(begun, keys.len()))
}

async fn settle(site: &Site, keys: &[String]) -> Result<Duration, Fault> {
    let mut settlements = Vec::new();
    for key in keys {
        let write = fresh(key);
        let now = applied(site.store.swap(write.clone()).await?)?;
        let claim = write.next.at(now, write.expect);
        let (expect, next) = (Expect::Revision(claim.revision), settled(claim.redraft()));
        settlements.push(Write { expect, next, event: Some(event(key)), ..write });
    }
    let begun = Instant::now();
    for write in settlements {
        applied(site.store.swap(write).await?)?;
    }
    Ok(share(begun, keys.len()))
}

async fn replay(site: &Site) -> Result<Duration, Fault> {
    let ids: Vec<ClaimId> = (0..200).map(|_| any(site)).collect();
    let begun = Instant::now();
    for id in &ids {
        let met = site.store.swap(Write { id: id.clone(), ..fresh("") }).await?;
        if !matches!(met, Swap::Mismatch { row: Some(_), .. }) {
            return Err(format!("{id:?} is not there").into());
        }
    }
    Ok(share(begun, ids.len()))
}

async fn twin(site: &Site) -> Result<Duration, Fault> {
    let asked: Vec<TwinOf> = (0..200)
        .map(|_| TwinOf {
            id: any(site),
            user: "u1".into(),
            args_hashes: vec![format!("k1:{}", Uuid::new_v4().simple())],
            window: Duration::from_mins(5),
        })
        .collect();
    each(asked.iter(), async |of| site.store.twin(of).await.map(drop)).await
}

async fn prune(site: &Site) -> Result<Duration, Fault> {
    site.owner.batch_execute(EXPIRED).await?;
    let begun = Instant::now();
    let pruned = site.store.prune_claims(&PruneOf { batch: 500, from: None }).await?;
    let cost = share(begun, 500);
    if pruned.claims == 500 { Ok(cost) } else { Err(format!("{pruned:?}").into()) }
}

/// Five hundred that expired long ago.
const EXPIRED: &str = "INSERT INTO oncegate.idempotency_claims (
        tenant_id, service, tool, idempotency_key, user_id, args_hash, status, revision, attempt_id, attempt, created_at,
        settled_at, expires_at)
    SELECT 't050', 'billing', 'refund_order', 'old-' || gen_random_uuid(), 'u1', 'k1:' || md5(n::text), 'completed', n,
        gen_random_uuid(), '{}', now(), now(), now() - interval '1 day'
    FROM generate_series(1, 500) AS n";

fn share(begun: Instant, of: usize) -> Duration {
    begun.elapsed() / u32::try_from(of).unwrap_or(u32::MAX)
}

fn applied(swap: Swap) -> Result<oncegate::domain::time::Timestamp, Fault> {
    match swap {
        Swap::Applied { now } => Ok(now),
        Swap::Mismatch { row, .. } => Err(format!("not applied over {row:?}").into()),
    }
}

/// Any claim that was there from the beginning.
fn any(site: &Site) -> ClaimId {
    let n = fastrand::u64(0..site.rows);
    let tenant = format!("t{:03}", n * 100 / site.rows);
    ClaimId { tenant, service: "billing".into(), tool: "refund_order".into(), key: format!("k{n:09}") }
}

/// The audit rows of any key.
fn rows_of(site: &Site) -> AuditFilter {
    let n = fastrand::u64(0..site.rows);
    AuditFilter {
        tenant: Some(format!("t{:03}", n % 100)),
        tool: Some("refund_order".into()),
        key: Some(format!("k{n:09}")),
        limit: 100,
        ..AuditFilter::default()
    }
}

fn facts(key: &str, attempt: Uuid) -> Facts {
    Facts {
        tenant_id: "t050".into(),
        service: "billing".into(),
        user_id: "u1".into(),
        session_id: Some("s1".into()),
        tool: "refund_order".into(),
        args_hash: Some("k1:aa".into()),
        args: Some(r#"{"order_id":"ord_9f2","amount":12.50}"#.into()),
        idempotency_key: Some(key.into()),
        attempt_id: Some(attempt),
        policy_version: Some("p1".into()),
        protocol: Some("mcp/2026-07-28".into()),
        ..Facts::default()
    }
}

fn fresh(key: &str) -> Write {
    let attempt_id = Uuid::new_v4();
    let id = ClaimId {
        tenant: "t050".into(),
        service: "billing".into(),
        tool: "refund_order".into(),
        key: key.into(),
    };
    let next = Draft {
        user: "u1".into(),
        args_hash: format!("k1:{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()),
        status: Status::InFlight,
        attempt_id,
        facts: facts(key, attempt_id),
        round: Round::default(),
        lease_until: When::In(Duration::from_mins(1)),
        attempt_until: When::In(Duration::from_mins(5)),
        first_sent_at: When::NOW,
        response: None,
        created_at: None,
        settled_at: When::Never,
        expires_at: When::Never,
    };
    Write { id, expect: Expect::Absent, next, event: None }
}

fn settled(of: Draft) -> Draft {
    Draft {
        status: Status::Completed,
        lease_until: When::Never,
        response: Some(Bytes::from_static(
            b"{\"status\":200}\n{\"refund\":{\"id\":\"re_1\",\"cents\":1250}}",
        )),
        settled_at: When::NOW,
        expires_at: When::In(Duration::from_hours(24)),
        ..of
    }
}

fn event(key: &str) -> AuditEvent {
    AuditEvent {
        id: event_id(),
        facts: facts(key, Uuid::new_v4()),
        decision: Decision::Allowed,
        reason: None,
        result_summary: Some(r#"{"refund.id":"re_1"}"#.into()),
        duration_ms: Some(412),
        executed: Executed::Yes,
        upstream_status: Some(200),
    }
}
