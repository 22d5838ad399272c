, made AS (
    INSERT INTO oncegate.idempotency_claims (
        tenant_id, service, tool, idempotency_key, user_id, args_hash, status, revision, attempt_id, attempt,
        round_hash, response, created_at, lease_until, attempt_until, first_sent_at, settled_at, expires_at)
    SELECT
        tenant_id, service, tool, idempotency_key, user_id, args_hash, status,
        (extract(epoch FROM now()) * 1000000)::bigint, attempt_id, attempt, round_hash, response,
        coalesce(created_at, now()), coalesce(lease_at, now() + lease_in), coalesce(attempt_at, now() + attempt_in),
        coalesce(sent_at, now() + sent_in), coalesce(settled_at, now() + settled_in),
        coalesce(expires_at, now() + expires_in)
    FROM w
    WHERE expect IS NULL
    ORDER BY n
    ON CONFLICT (tenant_id, service, tool, idempotency_key) DO NOTHING
    RETURNING tenant_id, service, tool, idempotency_key
), made_n AS (
    SELECT w.n FROM w JOIN made USING (tenant_id, service, tool, idempotency_key)
)
