-- Who leads, how long the audit is kept at least, and what keeps it so. Audit rows go to partitions by the week of their
-- id, which begins with the time at which a gate made it. By the id and not by "at": a primary key must hold what
-- partitions are made by, and a row that is sent again, its first answer lost, is known by (tenant_id, id) alone.

-- Who does what only one gate at a time need do.
CREATE TABLE oncegate.leases (
    what    text        COLLATE "C" PRIMARY KEY,
    holder  uuid        NOT NULL,
    until   timestamptz NOT NULL
);

-- What only the owner may change: no gate has an audit row deleted that is younger than this (null: none ever).
CREATE TABLE oncegate.retention (
    only_one    boolean     PRIMARY KEY DEFAULT TRUE CHECK (only_one),
    audit_floor interval    DEFAULT '400 days' CHECK (audit_floor >= '1 day'),
    set_at      timestamptz
);
INSERT INTO oncegate.retention DEFAULT VALUES;

-- Each call leaves dead rows here: they are cleared away after a hundredth of the table rather than a fifth.
ALTER TABLE oncegate.idempotency_claims SET (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05,
    toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_threshold = 5000
);

-- The first id that can be made at this time.
CREATE FUNCTION oncegate.uuid_at(at timestamptz) RETURNS uuid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (lpad(to_hex(greatest(0, floor(extract(epoch FROM at) * 1000))::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- When an id was made.
CREATE FUNCTION oncegate.time_of(id uuid) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_timestamp(('x' || substr(translate(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
$$;

-- The audit's partitions: ids from low (null: from the first on) to below high. That for all other ids has neither.
CREATE FUNCTION oncegate.audit_partitions() RETURNS TABLE (part text, low uuid, high uuid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.relname::text, substring(b.bound FROM $r$FROM \('([0-9a-f-]{36})'\)$r$)::uuid,
        substring(b.bound FROM $r$TO \('([0-9a-f-]{36})'\)$r$)::uuid
    FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid)) AS b (bound)
    WHERE i.inhparent = 'oncegate.audit_events'::regclass
$$;

-- Makes the partition of the week that begins then; says whether. Nothing that is written meanwhile waits for it, but
-- what would go to the partition for all others: that is empty as a rule.
CREATE FUNCTION oncegate.make_audit_week(week timestamptz) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_id uuid := oncegate.uuid_at(week);
    end_id   uuid := oncegate.uuid_at(week + interval '168 hours');
    part     text := 'audit_events_' || to_char(week AT TIME ZONE 'UTC', 'YYYYMMDD');
    strays   integer;
BEGIN
    IF EXISTS (
        SELECT FROM oncegate.audit_partitions() AS p
        WHERE p.high > first_id AND (p.low IS NULL OR p.low < end_id)
    ) THEN
        RETURN FALSE;
    END IF;
    -- Rows of a week that had no partition in time. Many would keep others waiting: they stay where they are.
    SELECT count(*) INTO strays FROM (
        SELECT FROM oncegate.audit_events_other WHERE id >= first_id AND id < end_id LIMIT 10001
    ) AS found;
    IF strays > 10000 THEN
        RETURN FALSE;
    END IF;
    LOCK TABLE ONLY oncegate.audit_events IN SHARE UPDATE EXCLUSIVE MODE;
    LOCK TABLE oncegate.audit_events_other IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('CREATE TABLE oncegate.%I (LIKE oncegate.audit_events INCLUDING ALL)', part);
    EXECUTE format(
        'WITH moved AS (DELETE FROM oncegate.audit_events_other WHERE id >= $1 AND id < $2 RETURNING *)
        INSERT INTO oncegate.%I SELECT * FROM moved', part) USING first_id, end_id;
    EXECUTE format('ALTER TABLE oncegate.audit_events ATTACH PARTITION oncegate.%I FOR VALUES FROM (%L) TO (%L)',
        part, first_id, end_id);
    RETURN TRUE;
END
$$;

-- What a gate may do to keep the audit for as long as it says, and never for less than the owner allows: it makes the
-- partitions of the next weeks, drops one that is wholly too old, or deletes a batch of old rows from where no
-- partition can be dropped; one of the three per call, so that no lock outlasts its own work. A row's age counts from
-- when this database wrote it, whatever its id says. Null keeps all.
CREATE FUNCTION oncegate.keep_audit(keep interval, batch bigint)
RETURNS TABLE (made bigint, dropped text, deleted bigint, more boolean, busy boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
AS $$
DECLARE
    floor_is interval;
    old      timestamptz;
    found_id text;
    young    boolean;
    mixed    text;
    count_is bigint;
BEGIN
    made := 0; deleted := 0; more := FALSE; busy := FALSE;
    -- Whoever else does this at the moment does it for all.
    SELECT r.audit_floor INTO floor_is FROM oncegate.retention AS r FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        busy := TRUE;
        RETURN NEXT;
        RETURN;
    END IF;

    BEGIN
        FOR ahead IN 0..4 LOOP
            IF oncegate.make_audit_week(date_trunc('week', now(), 'UTC') + ahead * interval '168 hours') THEN
                made := made + 1;
            END IF;
        END LOOP;
    EXCEPTION WHEN lock_not_available THEN
        made := 0; busy := TRUE;
    END;
    IF made > 0 OR keep IS NULL OR floor_is IS NULL THEN
        more := made > 0;
        RETURN NEXT;
        RETURN;
    END IF;

    old := now() - greatest(keep, floor_is);
    FOR found_id IN
        SELECT p.part FROM oncegate.audit_partitions() AS p WHERE p.high <= oncegate.uuid_at(old) ORDER BY p.high
    LOOP
        -- Rows that came late, out of a spool, keep their week for as long as themselves.
        EXECUTE format('SELECT EXISTS (SELECT FROM oncegate.%I WHERE at >= $1)', found_id) INTO young USING old;
        CONTINUE WHEN young;
        BEGIN
            LOCK TABLE ONLY oncegate.audit_events IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('SELECT EXISTS (SELECT FROM oncegate.%I WHERE at >= $1)', found_id) INTO young USING old;
            IF NOT young THEN
                SELECT greatest(0, c.reltuples)::bigint INTO deleted
                FROM pg_class AS c WHERE c.oid = format('oncegate.%I', found_id)::regclass;
                EXECUTE format('DROP TABLE oncegate.%I', found_id);
                dropped := found_id; more := TRUE;
                RETURN NEXT;
                RETURN;
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            deleted := 0; busy := TRUE;
        END;
    END LOOP;

    batch := least(greatest(batch, 1), 10000);
    FOR mixed IN SELECT p.part FROM oncegate.audit_partitions() AS p WHERE p.low IS NULL LOOP
        EXECUTE format(
            'DELETE FROM oncegate.%1$I WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM oncegate.%1$I WHERE at < $1 ORDER BY at LIMIT $2))', mixed)
        USING old, batch - deleted;
        GET DIAGNOSTICS count_is = ROW_COUNT;
        deleted := deleted + count_is;
        EXIT WHEN deleted >= batch;
    END LOOP;
    more := deleted >= batch;
    RETURN NEXT;
END
$$;

-- What keep_audit would take away now: partitions whole (their rows as the server last estimated them), or rows of one.
CREATE FUNCTION oncegate.audit_due(keep interval) RETURNS TABLE (part text, whole boolean, due bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old   timestamptz;
    young boolean;
    low   uuid;
    high  uuid;
BEGIN
    SELECT now() - greatest(keep, r.audit_floor) INTO old FROM oncegate.retention AS r
    WHERE r.audit_floor IS NOT NULL AND keep IS NOT NULL;
    IF old IS NULL THEN
        RETURN;
    END IF;
    FOR part, low, high IN SELECT p.part, p.low, p.high FROM oncegate.audit_partitions() AS p ORDER BY p.high LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM oncegate.%I WHERE at >= $1)', part) INTO young USING old;
        IF high <= oncegate.uuid_at(old) AND NOT young THEN
            whole := TRUE;
            SELECT greatest(0, c.reltuples)::bigint INTO due
            FROM pg_class AS c WHERE c.oid = format('oncegate.%I', part)::regclass;
            RETURN NEXT;
        ELSIF low IS NULL THEN
            whole := FALSE;
            EXECUTE format('SELECT count(*) FROM oncegate.%I WHERE at < $1', part) INTO due USING old;
            IF due > 0 THEN
                RETURN NEXT;
            END IF;
        END IF;
    END LOOP;
END
$$;

REVOKE ALL ON FUNCTION oncegate.uuid_at(timestamptz), oncegate.time_of(uuid), oncegate.audit_partitions(),
    oncegate.make_audit_week(timestamptz), oncegate.keep_audit(interval, bigint), oncegate.audit_due(interval)
    FROM PUBLIC;
