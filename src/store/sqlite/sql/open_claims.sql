-- How many claims of a service (?1) are in flight, how many unknown, and when the oldest of each was made. The words of
-- both states are the index's own.
SELECT status, count(*) AS count, min(created_at) AS oldest
FROM idempotency_claims
WHERE status IN ('in_flight', 'unknown') AND service = ?1
GROUP BY status
ORDER BY status
