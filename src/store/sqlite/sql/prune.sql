-- Deletes a batch of expired claims (?1: now, ?2: at most so many).
DELETE FROM idempotency_claims
WHERE rowid IN (
    SELECT rowid
    FROM idempotency_claims
    WHERE expires_at <= ?1 AND status NOT IN ('in_flight', 'unknown')
    ORDER BY expires_at
    LIMIT ?2
)
