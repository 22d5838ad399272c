-- Claims of a service that are in flight although their lease has lapsed, the oldest first; one row of nulls where there
-- are none. Nothing younger than a lease ($2) can have lapsed: of the calls that run, only those that take long are read.
SELECT now() AS now, c.*
FROM (VALUES (1)) AS clock (tick)
LEFT JOIN (
    SELECT
        tenant_id, service, tool, idempotency_key, user_id, args_hash, status, revision, attempt_id, attempt, round_hash,
        lease_until, attempt_until, first_sent_at, response, created_at, settled_at, expires_at
    FROM oncegate.idempotency_claims
    WHERE status = 'in_flight' AND created_at <= now() - $2 AND lease_until <= now() AND service = $1
    ORDER BY created_at
    LIMIT $3
) AS c ON TRUE
ORDER BY c.created_at
