, locked AS (
    -- In key order, as every group does it: two groups never hold what the other waits for.
    SELECT w.n
    FROM w
    JOIN oncegate.idempotency_claims AS c USING (tenant_id, service, tool, idempotency_key)
    WHERE c.revision = w.expect
    ORDER BY w.n
    FOR UPDATE OF c
), moved AS (
    UPDATE oncegate.idempotency_claims AS c
    SET user_id = w.user_id,
        args_hash = w.args_hash,
        status = w.status,
        revision = w.expect + 1,
        attempt_id = w.attempt_id,
        attempt = w.attempt,
        round_hash = w.round_hash,
        response = w.response,
        created_at = coalesce(w.created_at, now()),
        lease_until = coalesce(w.lease_at, now() + w.lease_in),
        attempt_until = coalesce(w.attempt_at, now() + w.attempt_in),
        first_sent_at = coalesce(w.sent_at, now() + w.sent_in),
        settled_at = coalesce(w.settled_at, now() + w.settled_in),
        expires_at = coalesce(w.expires_at, now() + w.expires_in)
    FROM w
    JOIN locked USING (n)
    WHERE c.tenant_id = w.tenant_id
        AND c.service = w.service
        AND c.tool = w.tool
        AND c.idempotency_key = w.idempotency_key
        AND c.revision = w.expect
    RETURNING w.n
)
