SELECT
    tenant_id, service, tool, idempotency_key, user_id, args_hash, status, revision, attempt_id, attempt, round_hash,
    lease_until, attempt_until, first_sent_at, response, created_at, settled_at, expires_at
FROM idempotency_claims
WHERE tenant_id = ?1 AND service = ?2 AND tool = ?3 AND idempotency_key = ?4
