INSERT INTO idempotency_claims (
    tenant_id, service, tool, idempotency_key, user_id, args_hash, status, revision, attempt_id, attempt, round_hash,
    lease_until, attempt_until, first_sent_at, response, created_at, settled_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
ON CONFLICT (tenant_id, service, tool, idempotency_key) DO NOTHING
