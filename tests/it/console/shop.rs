//! A shop that has been open for a week: rows and claims as a busy support desk leaves them, put into a gate's store.
//!
//! Promises: the same every time but for the times, which are as long ago as they say.

use std::sync::Arc;
use std::time::Duration;

use oncegate::domain::audit::{AuditEvent, Decision, Executed, Facts};
use oncegate::domain::ledger::{ClaimId, Draft, Expect, Round, Status};
use oncegate::domain::time::When;
use oncegate::store::{Role, Store, StoreOptions, Swap, Write, open};
use uuid::Uuid;

use crate::harness::gate::Gate;

const DAY: u64 = 86_400;

/// A gate's store, and what is put into it.
pub(super) struct Shop {
    store: Arc<dyn Store>,
    file: String,
    dice: fastrand::Rng,
    /// What was written, and how long ago it is to have been.
    ages: Vec<(Uuid, Duration)>,
}

impl Shop {
    /// Beside a gate on SQLite.
    pub(super) async fn beside(gate: &Gate) -> Self {
        let url = gate.setting("store.url");
        let file = url.strip_prefix("sqlite:").expect("it is on SQLite").to_owned();
        let store = open(&url, StoreOptions::new(Role::Inspect)).await.expect("the gate's store");
        Self { store, file, dice: fastrand::Rng::with_seed(7), ages: Vec::new() }
    }

    /// What a person at night would find.
    pub(super) async fn open_for_a_week(&mut self) {
        for number in 0..900 {
            let age = Duration::from_secs(self.dice.u64(60..7 * DAY));
            let row = self.some_call(number);
            self.row(row, age).await;
        }
        for (key, age, lost) in
            [("rfnd-7781-a", 5 * 3_600, true), ("mail it's", 700, true), ("po_5521", 90, true)]
        {
            let age = Duration::from_secs(age);
            let claim = match key {
                "rfnd-7781-a" => self.claim("acme", "billing", "refund_order", key, "alice"),
                "po_5521" => self.claim("acme", "billing", "charge_card", key, "svc-nightly"),
                _ => self.claim("globex", "billing", "send_mail", key, "bob"),
            };
            self.unknown(claim, age, lost).await;
        }
        for (tenant, tool, key, user, age) in [
            ("acme", "refund_order", "rfnd-8841", "alice", 12),
            ("initech", "charge_card", "ch-0021", "carol", 3),
        ] {
            let (id, facts) = self.claim(tenant, "billing", tool, key, user);
            self.stand(id, facts, Status::InFlight, Duration::from_secs(age)).await;
        }
        self.settle_times();
    }

    /// What a stranger could write: in every name that he chooses, one after the other.
    pub(super) async fn let_strangers_write(&mut self, texts: &[String]) {
        for (number, text) in texts.iter().enumerate() {
            let whole = text.as_str();
            // A key is printable ASCII, and short.
            let key: String = whole.chars().filter(|c| (' '..='~').contains(c)).take(128).collect();
            let key = if key.trim().is_empty() { "k" } else { key.trim() };
            let (id, mut facts) = self.claim(whole, "billing", whole, key, whole);
            facts.session_id = Some(whole.to_owned());
            facts.client = Some(whole.to_owned());
            facts.protocol = Some(whole.to_owned());
            facts.trace_id = Some(whole.to_owned());
            facts.policy_version = Some(whole.to_owned());
            facts.args =
                Some(serde_json::json!({ "order_id": whole, whole: [whole, { whole: null }] }).to_string());
            if number % 3 == 0 {
                facts.args = Some(whole.to_owned());
            }
            let seconds = u64::try_from(number).expect("a few") * 40 + 60;
            self.unknown((id, facts), Duration::from_secs(seconds), number % 2 == 0).await;
        }
        self.settle_times();
    }

    fn some_call(&mut self, number: u32) -> AuditEvent {
        let tenant = ["acme", "globex", "initech"][self.dice.usize(0..3)];
        let user = ["alice", "bob", "carol", "u_4711", "svc-nightly"][self.dice.usize(0..5)];
        let tool =
            ["refund_order", "get_invoice", "charge_card", "send_mail", "get_invoice"][self.dice.usize(0..5)];
        let (_, facts) = self.claim(tenant, "billing", tool, &format!("rq-{number:05}"), user);
        let row = event(facts, Decision::Allowed, None, Executed::Yes);
        let row = AuditEvent { upstream_status: Some(200), duration_ms: Some(self.dice.i64(20..900)), ..row };
        match self.dice.u32(0..100) {
            0..72 => row,
            72..84 => AuditEvent { decision: Decision::Replayed, duration_ms: Some(4), ..row },
            84..98 => {
                let reasons = ["missing_scope", "not_in_policy", "idempotency_in_flight", "denied_by_policy"];
                let reason = reasons[self.dice.usize(0..4)];
                let row = AuditEvent { upstream_status: None, duration_ms: Some(1), ..row };
                AuditEvent {
                    decision: Decision::Denied,
                    reason: Some(reason.into()),
                    executed: Executed::No,
                    ..row
                }
            }
            _ => AuditEvent {
                reason: Some("outcome_unknown".into()),
                executed: Executed::Maybe,
                upstream_status: None,
                ..row
            },
        }
    }

    fn claim(&mut self, tenant: &str, service: &str, tool: &str, key: &str, user: &str) -> (ClaimId, Facts) {
        let id =
            ClaimId { tenant: tenant.into(), service: service.into(), tool: tool.into(), key: key.into() };
        let order = if key == "rfnd-7781-a" {
            "ord_9f2".to_owned()
        } else {
            format!("ord_{}", self.dice.u32(10_000..100_000))
        };
        let facts = Facts {
            tenant_id: tenant.into(),
            service: service.into(),
            user_id: user.into(),
            session_id: Some(format!("s_{:06x}", self.dice.u32(0..0x00ff_ffff))),
            tool: tool.into(),
            args_hash: Some("k1:5f1d".into()),
            args: Some(format!(r#"{{"order_id":"{order}","amount_cents":{}}}"#, self.dice.u32(500..90_000))),
            idempotency_key: Some(key.into()),
            attempt_id: Some(Uuid::now_v7()),
            policy_version: Some("3f1c9a7be021".into()),
            trace_id: Some(format!("{:032x}", self.dice.u128(..))),
            protocol: Some("mcp/2026-07-28".into()),
            client: Some("support-agent/2.3".into()),
            ..Facts::default()
        };
        (id, facts)
    }

    /// A claim whose answer got lost, and two retries that met it.
    async fn unknown(&mut self, (id, facts): (ClaimId, Facts), age: Duration, retried: bool) {
        self.stand(id, facts.clone(), Status::Unknown, age).await;
        let lost = event(facts.clone(), Decision::Allowed, Some("outcome_unknown"), Executed::Maybe);
        self.row(AuditEvent { duration_ms: Some(30_000), ..lost }, age).await;
        let refused = || {
            event(
                Facts { attempt_id: None, ..facts.clone() },
                Decision::Denied,
                Some("outcome_unknown"),
                Executed::Maybe,
            )
        };
        for after in [20, 45].into_iter().take(if retried { 2 } else { 1 }) {
            self.row(refused(), age.saturating_sub(Duration::from_secs(after))).await;
        }
    }

    async fn stand(&mut self, id: ClaimId, facts: Facts, status: Status, age: Duration) {
        let now = self.store.read(&id).await.expect("the store answers").now;
        let began = now.minus(age);
        let settled = if status == Status::Unknown { When::At(began) } else { When::Never };
        let next = Draft {
            user: facts.user_id.clone(),
            args_hash: "k1:5f1d".into(),
            status,
            attempt_id: facts.attempt_id.expect("an attempt"),
            facts,
            round: Round::default(),
            lease_until: if status == Status::InFlight {
                When::In(Duration::from_mins(10))
            } else {
                When::Never
            },
            attempt_until: When::At(began.plus(Duration::from_secs(30))),
            first_sent_at: When::At(began),
            response: None,
            created_at: Some(began),
            settled_at: settled,
            expires_at: When::Never,
        };
        let written = self.store.swap(Write { id, expect: Expect::Absent, next, event: None }).await;
        assert!(matches!(written, Ok(Swap::Applied { .. })), "{written:?}");
    }

    async fn row(&mut self, row: AuditEvent, age: Duration) {
        self.ages.push((row.id, age));
        self.store.append(row).await.expect("it is written");
    }

    /// Stores stamp their own time: what is to have happened earlier is moved.
    fn settle_times(&mut self) {
        let mut file = rusqlite::Connection::open(&self.file).expect("the gate's file");
        file.busy_timeout(Duration::from_secs(10)).expect("it can wait");
        let all = file.transaction().expect("a transaction");
        for (id, age) in self.ages.drain(..) {
            let micros = i64::try_from(age.as_micros()).expect("it fits");
            let moved = all.execute(
                "UPDATE audit_events SET at = at - ?1 WHERE id = ?2",
                rusqlite::params![micros, id.to_string()],
            );
            assert_eq!(moved.expect("it is moved"), 1);
        }
        all.commit().expect("it is stored");
    }
}

fn event(facts: Facts, decision: Decision, reason: Option<&str>, executed: Executed) -> AuditEvent {
    AuditEvent {
        id: Uuid::now_v7(),
        facts,
        decision,
        reason: reason.map(str::to_owned),
        result_summary: Some(r#"{"refund.id":"re_81c"}"#.into()).filter(|_| executed == Executed::Yes),
        duration_ms: Some(2),
        executed,
        upstream_status: None,
    }
}
