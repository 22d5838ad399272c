//! The steps that bring a database's schema up, for both homes.
//!
//! Promises: a step that was released is never changed, only followed by another; every step leaves a schema that the
//! release before it can still serve, so that pods of two releases run side by side while a rollout lasts.
//!
//! Absent on purpose: steps down. A release that is rolled back runs on the newer schema.

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// The schema's version after it.
    pub(super) version: i64,
    /// Its statements.
    pub(super) sql: &'static str,
}

/// The version that this program needs.
pub(super) const NEEDED: i64 = 2;

/// Every step for Postgres, in order.
pub(super) const POSTGRES: [Migration; 2] = [
    Migration { version: 1, sql: include_str!("postgres/0001_claims_and_audit.sql") },
    Migration {
        version: 2,
        sql: concat!(
            include_str!("postgres/0002_retention.sql"),
            include_str!("postgres/0002_partitions.sql")
        ),
    },
];

/// The step that a large audit table is made ready for beforehand, beside the gates that write into it.
pub(super) const PARTITIONS: i64 = 2;

/// What the gate's own role may do on Postgres.
pub(super) const POSTGRES_GATE_ROLE: &str = include_str!("postgres/gate_role.sql");

/// Every step for SQLite, in order.
pub(super) const SQLITE: [Migration; 2] = [
    Migration { version: 1, sql: include_str!("sqlite/0001_claims_and_audit.sql") },
    Migration { version: 2, sql: include_str!("sqlite/0002_retention.sql") },
];

#[cfg(test)]
mod tests {
    use super::{NEEDED, POSTGRES, SQLITE};

    #[test]
    fn both_homes_count_up_to_the_version_that_is_needed() {
        let needed: Vec<i64> = (1..=NEEDED).collect();
        assert_eq!(POSTGRES.map(|step| step.version).to_vec(), needed);
        assert_eq!(SQLITE.map(|step| step.version).to_vec(), needed);
    }
}
