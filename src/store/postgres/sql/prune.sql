-- Deletes a batch of expired claims; those that somebody is working on are left for the next time.
DELETE FROM oncegate.idempotency_claims AS c
USING (
    SELECT tenant_id, service, tool, idempotency_key
    FROM oncegate.idempotency_claims
    WHERE expires_at <= now() AND status NOT IN ('in_flight', 'unknown')
    ORDER BY expires_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS expired
WHERE c.tenant_id = expired.tenant_id
    AND c.service = expired.service
    AND c.tool = expired.tool
    AND c.idempotency_key = expired.idempotency_key
RETURNING 1
