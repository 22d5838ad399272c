-- The audit table becomes the first partition of one of its name. Rows are not moved: where there are many, what this
-- needs (an index, and a checked bound for ids) was made beforehand, beside the writers, and nobody waits for more than
-- the change of some names. An earlier release's inserts name columns and the key (tenant_id, id), and go on as before.

LOCK TABLE oncegate.audit_events IN ACCESS EXCLUSIVE MODE;

DO $$
DECLARE
    is_empty boolean := NOT EXISTS (SELECT FROM oncegate.audit_events);
    checked  text;
    bound    uuid;
    grants   text[];
    grant_is text;
BEGIN
    SELECT array_agg(format('GRANT %s ON oncegate.audit_events TO %s', a.privilege_type,
        CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END))
    INTO grants
    FROM pg_class AS c
    CROSS JOIN LATERAL aclexplode(c.relacl) AS a
    LEFT JOIN pg_roles AS r ON r.oid = a.grantee
    WHERE c.oid = 'oncegate.audit_events'::regclass AND a.grantee <> c.relowner;

    ALTER TABLE oncegate.audit_events RENAME TO audit_events_first;
    ALTER INDEX oncegate.audit_events_pkey RENAME TO audit_events_first_pkey;
    ALTER INDEX oncegate.audit_events_key RENAME TO audit_events_first_key;
    ALTER INDEX oncegate.audit_events_at RENAME TO audit_events_first_at;

    CREATE TABLE oncegate.audit_events (
        LIKE oncegate.audit_events_first,
        CONSTRAINT audit_events_decision_check CHECK (decision IN ('allowed', 'denied', 'replayed')),
        CONSTRAINT audit_events_executed_check CHECK (executed IN ('no', 'maybe', 'yes')),
        PRIMARY KEY (tenant_id, id)
    ) PARTITION BY RANGE (id);
    CREATE INDEX audit_events_key ON oncegate.audit_events (tenant_id, tool, idempotency_key);
    CREATE INDEX audit_events_at ON oncegate.audit_events (tenant_id, at);
    -- For whoever asks for every tenant's newest rows, or counts those of the last hour.
    CREATE INDEX audit_events_newest ON oncegate.audit_events (at, id);

    -- Whatever has no partition of its own goes here, and no insert fails for want of one.
    CREATE TABLE oncegate.audit_events_other PARTITION OF oncegate.audit_events DEFAULT;

    IF is_empty THEN
        DROP TABLE oncegate.audit_events_first;
    ELSE
        SELECT substring(pg_get_constraintdef(c.oid) FROM '[0-9a-f-]{36}') INTO checked
        FROM pg_constraint AS c
        WHERE c.conrelid = 'oncegate.audit_events_first'::regclass AND c.conname = 'audit_events_bound';
        IF checked IS NOT NULL THEN
            bound := checked::uuid;
        ELSE
            -- A few rows are looked through here and now. The bound lies beyond them, and beyond any clock's fault.
            SELECT oncegate.uuid_at(date_trunc('week', greatest(now(), oncegate.time_of(max_id)), 'UTC')
                + interval '168 hours')
            INTO bound
            FROM (SELECT id FROM oncegate.audit_events_first ORDER BY id DESC LIMIT 1) AS newest (max_id);
        END IF;
        EXECUTE format(
            'ALTER TABLE oncegate.audit_events ATTACH PARTITION oncegate.audit_events_first
            FOR VALUES FROM (MINVALUE) TO (%L)', bound);
        ALTER TABLE oncegate.audit_events_first DROP CONSTRAINT IF EXISTS audit_events_bound;
    END IF;
    FOR ahead IN 0..4 LOOP
        PERFORM oncegate.make_audit_week(date_trunc('week', now(), 'UTC') + ahead * interval '168 hours');
    END LOOP;

    FOREACH grant_is IN ARRAY coalesce(grants, '{}') LOOP
        EXECUTE grant_is;
    END LOOP;
    -- A gate that serves by rights of its own, rather than by those of oncegate_gate, may do what that one may.
    FOR grant_is IN
        SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END
        FROM pg_class AS c
        CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        LEFT JOIN pg_roles AS r ON r.oid = a.grantee
        WHERE c.oid = 'oncegate.idempotency_claims'::regclass AND a.grantee <> c.relowner
            AND a.privilege_type = 'DELETE'
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON oncegate.leases TO %s', grant_is);
        EXECUTE format('GRANT SELECT ON oncegate.retention TO %s', grant_is);
        EXECUTE format('GRANT EXECUTE ON FUNCTION oncegate.keep_audit(interval, bigint), oncegate.audit_due(interval)
            TO %s', grant_is);
    END LOOP;
END
$$;
