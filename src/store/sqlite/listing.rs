//! Questions beside the calls: lists for people, twins.

use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use super::rows;
use crate::domain::audit::{Decision, Executed};
use crate::domain::ledger::Status;
use crate::domain::time::Timestamp;
use crate::store::text::{has_members, held, in_json};
use crate::store::{
    AuditFilter, ClaimFilter, Counted, Cursor, Found, LapsedOf, ListedClaim, OpenClaims, RecordedEvent,
    TallyOf, Twin, TwinOf, UnknownOf,
};

/// The conditions that are set, and their values.
#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Box<dyn ToSql>>,
}

impl Conditions {
    /// `condition` ends where the value's place is.
    fn and(&mut self, condition: &str, value: Option<impl ToSql + 'static>) {
        if let Some(value) = value {
            let word = if self.values.is_empty() { "WHERE" } else { "AND" };
            self.values.push(Box::new(value));
            let place = self.values.len().to_string();
            self.sql.extend([" ", word, " ", condition, " ?", &place]);
        }
    }

    /// A service, or one of its listeners: their names begin with its own and a colon.
    fn and_service(&mut self, service: Option<&String>) {
        if let Some(service) = service {
            let word = if self.values.is_empty() { "WHERE" } else { "AND" };
            self.values.push(Box::new(held(service).into_owned()));
            let at = self.values.len();
            let condition =
                format!(" {word} (service = ?{at} OR substr(service, 1, length(?{at}) + 1) = ?{at} || ':')");
            self.sql.push_str(&condition);
        }
    }

    /// Earlier or later than a row, in the order of time and id.
    fn and_beside(&mut self, order: &str, place: Option<Cursor>) {
        let Some(Cursor { at, id }) = place else { return };
        let word = if self.values.is_empty() { "WHERE" } else { "AND" };
        self.values.push(Box::new(at.as_micros()));
        self.values.push(Box::new(id.to_string()));
        let last = self.values.len();
        let condition = format!(" {word} (at, id) {order} (?{}, ?{last})", last - 1);
        self.sql.push_str(&condition);
    }

    /// Somewhere in the row.
    fn and_anywhere(&mut self, text: Option<&String>) {
        let Some(text) = text else { return };
        let word = if self.values.is_empty() { "WHERE" } else { "AND" };
        self.values.push(Box::new(held(text).into_owned()));
        let plain = self.values.len();
        self.values.push(Box::new(in_json(text)));
        let quoted = self.values.len();
        let names = ["tool", "idempotency_key", "user_id", "tenant_id", "session_id", "reason"];
        let names = names.map(|name| format!("instr({name}, ?{plain})")).join(" OR ");
        let condition = format!(
            " {word} ({names} OR instr(args, ?{quoted}) OR instr(result_summary, ?{quoted}) OR instr(trace_id, ?{plain}) = 1 OR id = ?{plain} OR attempt_id = ?{plain})"
        );
        self.sql.push_str(&condition);
    }

    fn and_text(&mut self, column: &str, text: Option<&String>) {
        self.and(&format!("{column} ="), text.map(|text| held(text).into_owned()));
    }
}

pub(super) fn claims(connection: &Connection, filter: &ClaimFilter) -> rusqlite::Result<Vec<ListedClaim>> {
    let mut conditions = Conditions::default();
    conditions.and_text("tenant_id", filter.tenant.as_ref());
    conditions.and_service(filter.service.as_ref());
    conditions.and_text("tool", filter.tool.as_ref());
    conditions.and_text("idempotency_key", filter.key.as_ref());
    conditions.and_text("user_id", filter.user.as_ref());
    conditions.and("status =", filter.status.map(Status::as_str));
    let now = rows::now(connection)?;
    conditions
        .and("coalesce(settled_at, created_at) <", filter.older_than.map(|age| now.minus(age).as_micros()));
    let order = if filter.oldest_first { "created_at" } else { "created_at DESC" };
    let sql = format!(
        "SELECT * FROM idempotency_claims{}
        ORDER BY {order}, tenant_id, service, tool, idempotency_key LIMIT {}",
        conditions.sql, filter.limit
    );
    connection.prepare(&sql)?.query_map(params_from_iter(conditions.values), listed)?.collect()
}

pub(super) fn lapsed(connection: &Connection, of: &LapsedOf) -> rusqlite::Result<Found> {
    let now = rows::now(connection)?;
    let values = params![held(&of.service), now.as_micros(), now.minus(of.lease).as_micros(), of.limit];
    let claims = connection
        .prepare_cached(include_str!("sql/lapsed.sql"))?
        .query_map(values, listed)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Found { claims, now })
}

/// Asked for one operation after the other: each is a piece of the index.
pub(super) fn unknown(connection: &Connection, of: &UnknownOf) -> rusqlite::Result<Found> {
    let now = rows::now(connection)?;
    let mut claims: Vec<ListedClaim> = Vec::new();
    for tool in &of.tools {
        let values = params![held(&of.service), held(tool), now.as_micros(), of.limit];
        let mut statement = connection.prepare_cached(include_str!("sql/unknown.sql"))?;
        let found = statement.query_map(values, listed)?;
        claims.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    claims.sort_by_key(|ListedClaim { claim, .. }| claim.lease_until.unwrap_or(claim.created_at));
    claims.truncate(usize::try_from(of.limit).unwrap_or(usize::MAX));
    Ok(Found { claims, now })
}

pub(super) fn open_counts(connection: &Connection, service: &str) -> rusqlite::Result<Vec<OpenClaims>> {
    let now = rows::now(connection)?;
    let counted = |row: &rusqlite::Row<'_>| {
        let oldest = Timestamp::from_micros(row.get("oldest")?);
        let count = u64::try_from(row.get::<_, i64>("count")?).unwrap_or(0);
        Ok(OpenClaims { status: rows::status(row)?, count, oldest: now.since(oldest) })
    };
    let mut statement = connection.prepare_cached(include_str!("sql/open_claims.sql"))?;
    statement.query_map(params![held(service)], counted)?.collect()
}

fn listed(row: &rusqlite::Row<'_>) -> rusqlite::Result<ListedClaim> {
    Ok(ListedClaim { id: rows::claim_id(row)?, claim: rows::claim(row)? })
}

/// The rows that fit, told oldest first. Arguments are text that only we can read, so rows are looked at until
/// enough were found.
pub(super) fn events(connection: &Connection, filter: &AuditFilter) -> rusqlite::Result<Vec<RecordedEvent>> {
    let mut conditions = Conditions::default();
    conditions.and_text("tenant_id", filter.tenant.as_ref());
    conditions.and_service(filter.service.as_ref());
    conditions.and_text("tool", filter.tool.as_ref());
    conditions.and_text("idempotency_key", filter.key.as_ref());
    conditions.and_text("user_id", filter.user.as_ref());
    conditions.and_text("session_id", filter.session.as_ref());
    conditions.and("decision =", filter.decision.map(Decision::as_str));
    conditions.and_text("reason", filter.reason.as_ref());
    conditions.and("executed =", filter.executed.map(Executed::as_str));
    conditions.and_text("trace_id", filter.trace.as_ref());
    conditions.and("attempt_id =", filter.attempt.map(|id| id.to_string()));
    conditions.and("id =", filter.id.map(|id| id.to_string()));
    let now = rows::now(connection)?;
    conditions.and("at >=", filter.since.map(|since| now.minus(since).as_micros()));
    conditions.and("at <", filter.until.map(|until| now.minus(until).as_micros()));
    conditions.and("at >=", filter.from.map(Timestamp::as_micros));
    conditions.and("at <", filter.to.map(Timestamp::as_micros));
    conditions.and_beside("<", filter.before);
    conditions.and_beside(">", filter.after);
    conditions.and_anywhere(filter.text.as_ref());
    let order = if filter.after.is_some() { "ORDER BY at, id" } else { "ORDER BY at DESC, id DESC" };
    let sql = format!("SELECT * FROM audit_events{} {order}", conditions.sql);
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(conditions.values))?;
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        // Looked at before anything else of the row is read: most rows are not the ones.
        let fits =
            filter.args.is_empty() || has_members(row.get_ref("args")?.as_str_or_null()?, &filter.args);
        if fits {
            found.push(rows::event(row)?);
        }
    }
    if filter.after.is_none() {
        found.reverse();
    }
    Ok(found)
}

pub(super) fn tally(connection: &Connection, of: &TallyOf) -> rusqlite::Result<Counted> {
    let now = rows::now(connection)?;
    let step = i64::try_from(of.step.as_micros()).unwrap_or(i64::MAX).max(1_000_000);
    let running = now.as_micros() / step * step;
    let from = running.saturating_sub(step.saturating_mul(i64::from(of.steps.saturating_sub(1))));
    let tallies = connection
        .prepare_cached(include_str!("sql/tally.sql"))?
        .query_map(params![held(&of.service), step, from], rows::tally)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Counted { tallies, now })
}

pub(super) fn twin(connection: &Connection, of: &TwinOf) -> rusqlite::Result<Option<Twin>> {
    let since = rows::now(connection)?.minus(of.window).as_micros();
    let mut newest: Option<Twin> = None;
    for hash in &of.args_hashes {
        let found = connection
            .prepare_cached(include_str!("sql/twin.sql"))?
            .query_row(
                params![
                    held(&of.id.tenant),
                    held(&of.id.service),
                    held(&of.id.tool),
                    held(hash),
                    held(&of.user),
                    held(&of.id.key),
                    since
                ],
                |row| Ok(Twin { key: row.get(0)?, created_at: Timestamp::from_micros(row.get(1)?) }),
            )
            .optional()?;
        newest = newest.into_iter().chain(found).max_by_key(|twin| twin.created_at);
    }
    Ok(newest)
}
