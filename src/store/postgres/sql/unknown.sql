-- Unknown claims of a service's operations ($2) whose time to be asked about has come, those first that waited longest;
-- one row of nulls where there are none. Each operation is a piece of the index.
SELECT now() AS now, c.*
FROM (VALUES (1)) AS clock (tick)
LEFT JOIN (
    SELECT due.*
    FROM unnest($2) AS asked (tool)
    CROSS JOIN LATERAL (
        SELECT
            tenant_id, service, tool, idempotency_key, user_id, args_hash, status, revision, attempt_id, attempt,
            round_hash, lease_until, attempt_until, first_sent_at, response, created_at, settled_at, expires_at
        FROM oncegate.idempotency_claims AS one
        WHERE one.status = 'unknown' AND one.service = $1 AND one.tool = asked.tool
            AND coalesce(one.lease_until, one.created_at) <= now()
        ORDER BY coalesce(one.lease_until, one.created_at)
        LIMIT $3
    ) AS due
    ORDER BY coalesce(due.lease_until, due.created_at)
    LIMIT $3
) AS c ON TRUE
ORDER BY coalesce(c.lease_until, c.created_at)
