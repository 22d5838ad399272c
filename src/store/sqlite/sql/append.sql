-- One that is there already was written by an earlier try whose commit failed late.
INSERT INTO audit_events (
    id, at, tenant_id, service, user_id, session_id, tool, decision, reason, args_hash, args, result_summary,
    idempotency_key, duration_ms, attempt_id, executed, upstream_status, policy_version, trace_id, protocol, client)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
ON CONFLICT (tenant_id, id) DO NOTHING
