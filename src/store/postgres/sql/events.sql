-- Audit rows. A filter that is null holds for every row. $10 to $13: the places between which they are, both left out.
-- $21: texts that the arguments hold somewhere; whoever asks looks whether they hold them where they should.
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
    AND ($12 IS NULL OR (at, id) > ($12, $13))
    AND ($14 IS NULL OR id = $14)
    AND ($15 IS NULL OR executed = $15)
    AND ($16 IS NULL OR trace_id = $16)
    AND ($17 IS NULL OR attempt_id = $17)
    AND ($18 IS NULL OR at < now() - $18)
    AND ($19 IS NULL OR at >= $19)
    AND ($20 IS NULL OR at < $20)
    AND ($21 IS NULL OR NOT EXISTS (SELECT FROM unnest($21) AS part WHERE strpos(args, part) = 0))
    AND (
        $23 IS NULL
        OR strpos(tool, $23) > 0 OR strpos(coalesce(idempotency_key, ''), $23) > 0 OR strpos(user_id, $23) > 0
        OR strpos(tenant_id, $23) > 0 OR strpos(coalesce(session_id, ''), $23) > 0
        OR strpos(coalesce(reason, ''), $23) > 0 OR starts_with(trace_id, $23)
        OR strpos(coalesce(args, ''), $24) > 0 OR strpos(coalesce(result_summary, ''), $24) > 0
        OR id = $25 OR attempt_id = $25
    )
