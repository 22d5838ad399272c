-- ?8 is the revision that the row shall have: one above what must stand there.
UPDATE idempotency_claims
SET user_id = ?5,
    args_hash = ?6,
    status = ?7,
    revision = ?8,
    attempt_id = ?9,
    attempt = ?10,
    round_hash = ?11,
    lease_until = ?12,
    attempt_until = ?13,
    first_sent_at = ?14,
    response = ?15,
    created_at = ?16,
    settled_at = ?17,
    expires_at = ?18
WHERE tenant_id = ?1 AND service = ?2 AND tool = ?3 AND idempotency_key = ?4 AND revision = ?8 - 1
