-- ROWS settled claims of a hundred tenants, and as many audit rows, an hour's worth for each hour of ten weeks. Keys come in
-- the order of their indexes; those over hashes are built afterwards.
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';
DROP INDEX oncegate.idempotency_claims_twin, oncegate.idempotency_claims_expiry;

INSERT INTO oncegate.idempotency_claims (
    tenant_id, service, tool, idempotency_key, user_id, args_hash, status, revision, attempt_id, attempt, response,
    first_sent_at, created_at, settled_at, expires_at)
SELECT
    't' || lpad((n::bigint * 100 / ROWS)::text, 3, '0'), 'billing', 'refund_order', 'k' || lpad(n::text, 9, '0'), 'u1',
    'k1:' || md5(n::text) || md5((n + 1)::text), 'completed', n, gen_random_uuid(),
    '{"tenant_id":"t","service":"billing","user_id":"u1","tool":"refund_order","args":"' || md5(n::text) || '"}',
    decode(repeat(md5(n::text), 5), 'hex'),
    now() - interval '1 hour', now() - interval '1 hour', now() - interval '1 hour',
    now() + interval '1 hour' + n * interval '10 milliseconds'
FROM generate_series(0, ROWS - 1) AS n;

CREATE INDEX idempotency_claims_twin ON oncegate.idempotency_claims (tenant_id, args_hash);
CREATE INDEX idempotency_claims_expiry ON oncegate.idempotency_claims (expires_at) WHERE expires_at IS NOT NULL;

SELECT oncegate.make_audit_week(date_trunc('week', now(), 'UTC') - week * interval '168 hours')
FROM generate_series(1, 10) AS week;
INSERT INTO oncegate.audit_events (
    id, at, tenant_id, service, user_id, session_id, tool, decision, args_hash, args, idempotency_key, duration_ms,
    attempt_id, executed, upstream_status)
SELECT
    (lpad(to_hex((extract(epoch FROM made) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
        || substr(md5(n::text), 4, 15))::uuid,
    made, 't' || lpad((n % 100)::text, 3, '0'), 'billing', 'u1', 's1', 'refund_order', 'allowed',
    'k1:' || md5(n::text) || md5((n + 1)::text), '{"order_id":"' || md5(n::text) || '"}', 'k' || lpad(n::text, 9, '0'), 12,
    gen_random_uuid(), 'yes', 200
FROM generate_series(0, ROWS - 1) AS n
CROSS JOIN LATERAL (SELECT now() - (ROWS - n) * (interval '70 days' / ROWS)) AS t (made);

RESET synchronous_commit;
