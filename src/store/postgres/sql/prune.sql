-- Deletes a batch ($1) of expired claims, those first that expired first, from $2 on; those that somebody is working on
-- are left for the next time. What is not settled is never taken, whatever its expiry says.
DELETE FROM oncegate.idempotency_claims AS c
USING (
    SELECT tenant_id, service, tool, idempotency_key
    FROM oncegate.idempotency_claims
    WHERE expires_at <= now()
        AND expires_at >= coalesce($2, '-infinity')
        AND status NOT IN ('in_flight', 'unknown')
    ORDER BY expires_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS expired
WHERE c.tenant_id = expired.tenant_id
    AND c.service = expired.service
    AND c.tool = expired.tool
    AND c.idempotency_key = expired.idempotency_key
RETURNING c.expires_at
