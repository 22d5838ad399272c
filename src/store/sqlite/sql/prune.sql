-- Deletes a batch of expired claims (?1: now, ?2: at most so many, ?3: only those that expired then or later).
DELETE FROM idempotency_claims
WHERE rowid IN (
    SELECT rowid
    FROM idempotency_claims
    WHERE expires_at <= ?1 AND expires_at >= ?3 AND status NOT IN ('in_flight', 'unknown')
    ORDER BY expires_at
    LIMIT ?2
)
RETURNING expires_at
