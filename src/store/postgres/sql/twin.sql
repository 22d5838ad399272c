-- The newest claim of the same user with the same arguments and another key, made within the window ($7).
SELECT idempotency_key, created_at
FROM oncegate.idempotency_claims
WHERE tenant_id = $1
    AND service = $2
    AND tool = $3
    AND args_hash = ANY ($4)
    AND user_id = $5
    AND idempotency_key <> $6
    AND status <> 'failed'
    AND created_at >= now() - $7
ORDER BY created_at DESC
LIMIT 1
