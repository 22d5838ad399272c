-- Claims of a service (?1) that are in flight although their lease has lapsed (?2: now), the oldest first; none that is
-- younger than a lease (made after ?3). The words of both states are the index's own.
SELECT * FROM idempotency_claims
WHERE status IN ('in_flight', 'unknown') AND status = 'in_flight'
    AND created_at <= ?3 AND lease_until <= ?2 AND service = ?1
ORDER BY created_at
LIMIT ?4
