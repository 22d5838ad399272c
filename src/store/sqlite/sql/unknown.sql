-- Unknown claims of a service's operation (?1, ?2) whose time to be asked about has come (?3: now), those first that
-- waited longest.
SELECT * FROM idempotency_claims
WHERE status = 'unknown' AND service = ?1 AND tool = ?2 AND coalesce(lease_until, created_at) <= ?3
ORDER BY coalesce(lease_until, created_at)
LIMIT ?4
