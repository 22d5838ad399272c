-- Audit rows, the newest first, from before ($10, $11) on. A filter that is null holds for every row.
SELECT
    id, at, tenant_id, service, user_id, session_id, tool, decision, reason, args_hash, args, result_summary,
    idempotency_key, duration_ms, attempt_id, executed, upstream_status, policy_version, trace_id, protocol, client
FROM oncegate.audit_events
WHERE ($1 IS NULL OR tenant_id = $1)
    AND ($2 IS NULL OR service = $2 OR starts_with(service, $2 || ':'))
    AND ($3 IS NULL OR tool = $3)
    AND ($4 IS NULL OR idempotency_key = $4)
    AND ($5 IS NULL OR user_id = $5)
    AND ($6 IS NULL OR session_id = $6)
    AND ($7 IS NULL OR decision = $7)
    AND ($8 IS NULL OR reason = $8)
    AND ($9 IS NULL OR at >= now() - $9)
    AND ($10 IS NULL OR (at, id) < ($10, $11))
    AND ($12 IS NULL OR id = $12)
ORDER BY at DESC, id DESC
LIMIT $13
