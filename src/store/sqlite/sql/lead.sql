-- Takes or keeps the lead in ?1 for ?2 until ?3 (?4: now).
INSERT INTO leases (what, holder, until)
VALUES (?1, ?2, ?3)
ON CONFLICT (what) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE leases.holder = excluded.holder OR leases.until <= ?4
