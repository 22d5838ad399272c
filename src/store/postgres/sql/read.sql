-- Claims by their names, in the order asked; nulls where there is none.
SELECT
    now() AS now,
    c.user_id, c.args_hash, c.status, c.revision, c.attempt_id, c.attempt, c.round_hash, c.lease_until,
    c.attempt_until, c.first_sent_at, c.response, c.created_at, c.settled_at, c.expires_at
FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS w (tenant_id, service, tool, idempotency_key, n)
LEFT JOIN oncegate.idempotency_claims AS c USING (tenant_id, service, tool, idempotency_key)
ORDER BY w.n
