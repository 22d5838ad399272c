-- Claims; their order and number are put behind this. A filter that is null holds for every row.
SELECT
    tenant_id, service, tool, idempotency_key, user_id, args_hash, status, revision, attempt_id, attempt, round_hash,
    lease_until, attempt_until, first_sent_at, response, created_at, settled_at, expires_at
FROM oncegate.idempotency_claims
WHERE ($1 IS NULL OR tenant_id = $1)
    AND ($2 IS NULL OR service = $2 OR starts_with(service, $2 || ':'))
    AND ($3 IS NULL OR tool = $3)
    AND ($4 IS NULL OR idempotency_key = $4)
    AND ($5 IS NULL OR user_id = $5)
    AND ($6 IS NULL OR status = $6)
    AND ($7 IS NULL OR coalesce(settled_at, created_at) < now() - $7)
