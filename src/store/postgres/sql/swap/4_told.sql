-- $24..$44, one entry per audit row: of which write it is (n: null for one that goes with no claim).
, e AS (
    SELECT *
    FROM unnest($24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44)
        AS e (
            n, id, tenant_id, service, user_id, session_id, tool, decision, reason, args_hash, args, result_summary,
            idempotency_key, duration_ms, attempt_id, executed, upstream_status, policy_version, trace_id, protocol,
            client)
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
