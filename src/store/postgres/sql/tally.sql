-- Audit rows of a service ($1) and its listeners, counted by piece of time ($2 seconds long, the last $3 of them) and by
-- what came of them; one row of nulls where there are none.
SELECT clock.now, counted.*
FROM (SELECT now() AS now) AS clock
LEFT JOIN (
    SELECT
        to_timestamp(floor(extract(EPOCH FROM at) / $2) * $2) AS piece,
        decision,
        decision = 'allowed' AND executed = 'maybe' AND reason IS DISTINCT FROM 'input_required' AS is_unclear,
        count(*) AS tally
    FROM oncegate.audit_events
    WHERE at >= to_timestamp((floor(extract(EPOCH FROM now()) / $2) - $3 + 1) * $2)
        AND (service = $1 OR starts_with(service, $1 || ':'))
    GROUP BY 1, 2, 3
) AS counted ON TRUE
ORDER BY counted.piece, counted.decision, counted.is_unclear
