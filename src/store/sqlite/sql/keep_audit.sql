-- Deletes a batch (?2) of the oldest audit rows that were written before ?1.
DELETE FROM audit_events
WHERE rowid IN (SELECT rowid FROM audit_events WHERE at < ?1 ORDER BY at, id LIMIT ?2)
