-- Takes or keeps the lead in $1: a row where there is none, or one's own, or one whose time is over. Whoever only looks
-- writes nothing. Of two that come at once one waits for the other's row, and finds it alive.
INSERT INTO oncegate.leases AS l (what, holder, until)
SELECT $1, $2, now() + $3
WHERE NOT EXISTS (SELECT FROM oncegate.leases WHERE what = $1 AND holder <> $2 AND until > now())
ON CONFLICT (what) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE l.holder = excluded.holder OR l.until <= now()
RETURNING 1
