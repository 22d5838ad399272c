-- How many claims of a service are in flight, how many unknown, and how old the oldest of each is, in seconds. Read from
-- the index of open claims: few, whatever the table holds.
SELECT status, count(*) AS count, extract(epoch FROM now() - min(created_at))::float8 AS oldest
FROM oncegate.idempotency_claims
WHERE status IN ('in_flight', 'unknown') AND service = $1
GROUP BY status
ORDER BY status
