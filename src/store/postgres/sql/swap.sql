-- A group of compare-and-swaps and audit rows: one statement, one commit, one round trip.
--
-- $1..$23, one entry per write in key order: what must stand there (expect: null for no row) and what shall.
-- $24..$44, one entry per audit row: of which write it is (n: null for one that goes with no claim).
-- Returns a row per write: whether it was applied, and if not, the row as this statement's snapshot has it. That can be
-- older than what was in the way: the caller reads again where it is.
WITH w AS (
    SELECT *
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
        WITH ORDINALITY AS w (
            tenant_id, service, tool, idempotency_key, expect, user_id, args_hash, status, attempt_id, attempt,
            round_hash, response, created_at, lease_at, lease_in, attempt_at, attempt_in, sent_at, sent_in,
            settled_at, settled_in, expires_at, expires_in, n)
), e AS (
    SELECT *
    FROM unnest($24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44)
        AS e (
            n, id, tenant_id, service, user_id, session_id, tool, decision, reason, args_hash, args, result_summary,
            idempotency_key, duration_ms, attempt_id, executed, upstream_status, policy_version, trace_id, protocol,
            client)
), made AS (
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
), locked AS (
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
), applied AS (
    SELECT w.n FROM w JOIN made USING (tenant_id, service, tool, idempotency_key)
    UNION ALL
    SELECT n FROM moved
), told AS (
    INSERT INTO oncegate.audit_events (
        id, at, tenant_id, service, user_id, session_id, tool, decision, reason, args_hash, args, result_summary,
        idempotency_key, duration_ms, attempt_id, executed, upstream_status, policy_version, trace_id, protocol, client)
    SELECT
        e.id, now(), e.tenant_id, e.service, e.user_id, e.session_id, e.tool, e.decision, e.reason, e.args_hash, e.args,
        e.result_summary, e.idempotency_key, e.duration_ms, e.attempt_id, e.executed, e.upstream_status,
        e.policy_version, e.trace_id, e.protocol, e.client
    FROM e
    LEFT JOIN applied USING (n)
    WHERE e.n IS NULL OR applied.n IS NOT NULL
    ON CONFLICT (tenant_id, id) DO NOTHING
)
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
