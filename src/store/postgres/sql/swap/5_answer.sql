-- A row per write: whether it was applied, and if not, the row as this statement's snapshot has it. That can be older
-- than what was in the way: the caller reads again where it is.
SELECT
    now() AS now, applied.n IS NOT NULL AS applied,
    c.user_id, c.args_hash, c.status, c.revision, c.attempt_id, c.attempt, c.round_hash, c.lease_until,
    c.attempt_until, c.first_sent_at, c.response, c.created_at, c.settled_at, c.expires_at
FROM w
LEFT JOIN applied USING (n)
LEFT JOIN oncegate.idempotency_claims AS c
    ON applied.n IS NULL
    AND c.tenant_id = w.tenant_id
    AND c.service = w.service
    AND c.tool = w.tool
    AND c.idempotency_key = w.idempotency_key
ORDER BY w.n
