-- A group of compare-and-swaps and audit rows: one statement, one commit, one round trip. It is put together from this
-- folder's parts, in the order of their numbers; a group that makes no rows, moves none, or tells nothing leaves that
-- part out, since planning it would cost more than running it.
--
-- $1..$23, one entry per write in key order: what must stand there (expect: null for no row) and what shall.
WITH w AS (
    SELECT *
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
        WITH ORDINALITY AS w (
            tenant_id, service, tool, idempotency_key, expect, user_id, args_hash, status, attempt_id, attempt,
            round_hash, response, created_at, lease_at, lease_in, attempt_at, attempt_in, sent_at, sent_in,
            settled_at, settled_in, expires_at, expires_in, n)
)
