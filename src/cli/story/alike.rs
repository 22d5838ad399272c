//! Keys that look like one that nobody used: a slip of the pen, or the beginning of one.
//!
//! Absent on purpose: a search of the whole store. Those of the newest rows are looked through.

use strsim::jaro_winkler;

use crate::store::{AuditFilter, ClaimFilter, Store, StoreError};
use crate::story::Of;

/// How many of the newest claims, and rows, are looked through.
const NEWEST: u32 = 1000;

/// How many keys are offered.
const MOST: usize = 5;

/// How alike two keys must be.
const ALIKE: f64 = 0.9;

/// The newest of them first.
pub(super) async fn alike(store: &dyn Store, of: &Of) -> Result<Vec<String>, StoreError> {
    let (tenant, service, tool) = (of.tenant.clone(), of.service.clone(), of.tool.clone());
    let claims = ClaimFilter {
        tenant: tenant.clone(),
        service: service.clone(),
        tool: tool.clone(),
        limit: NEWEST,
        ..ClaimFilter::default()
    };
    let rows = AuditFilter { tenant, service, tool, limit: NEWEST, ..AuditFilter::default() };
    let claims = store.claims(&claims).await?.into_iter().map(|found| found.id.key);
    let rows = store.events(&rows).await?.into_iter().rev();
    let rows = rows.filter_map(|row| row.event.facts.idempotency_key);
    let mut found: Vec<String> = Vec::new();
    for key in claims.chain(rows) {
        if is_alike(&of.key, &key) && !found.contains(&key) {
            found.push(key);
        }
        if found.len() == MOST {
            break;
        }
    }
    Ok(found)
}

fn is_alike(sought: &str, key: &str) -> bool {
    let same_case = |text: &str| text.to_ascii_lowercase();
    let (sought, key) = (same_case(sought.trim()), same_case(key));
    // One character begins half of all keys.
    let begins = sought.chars().count() > 2 && (key.starts_with(&sought) || sought.starts_with(&key));
    begins || jaro_winkler(&sought, &key) >= ALIKE
}

#[cfg(test)]
mod tests {
    use super::is_alike;

    #[test]
    fn a_slip_and_a_beginning_are_alike_and_another_key_is_not() {
        for (sought, key) in
            [("refund-4711", "refund-4712"), ("refund", "refund-4711"), ("REFUND-1", "refund-1")]
        {
            assert!(is_alike(sought, key), "{sought} {key}");
        }
        for (sought, key) in [("refund-4711", "mail-9"), ("r", "refund-4711"), ("", "k")] {
            assert!(!is_alike(sought, key), "{sought} {key}");
        }
    }
}
