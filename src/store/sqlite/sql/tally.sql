-- Audit rows of a service (?1) and its listeners, counted by piece of time (?2 microseconds long, from ?3 on) and by what
-- came of them.
SELECT
    at / ?2 * ?2 AS piece,
    decision,
    decision = 'allowed' AND executed = 'maybe' AND reason IS NOT 'input_required' AS is_unclear,
    count(*) AS tally
FROM audit_events
WHERE at >= ?3 AND (service = ?1 OR substr(service, 1, length(?1) + 1) = ?1 || ':')
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3
