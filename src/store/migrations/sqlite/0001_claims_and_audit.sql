-- Claims and audit rows. Times are microseconds since 1970-01-01T00:00:00Z, ids are hyphenated UUIDs.

CREATE TABLE idempotency_claims (
    tenant_id       TEXT    NOT NULL,
    service         TEXT    NOT NULL,
    tool            TEXT    NOT NULL,
    idempotency_key TEXT    NOT NULL,
    user_id         TEXT    NOT NULL,
    args_hash       TEXT    NOT NULL,
    status          TEXT    NOT NULL
        CHECK (status IN ('in_flight', 'awaiting_input', 'completed', 'failed', 'unknown')),
    revision        INTEGER NOT NULL,
    attempt_id      TEXT    NOT NULL,
    attempt         TEXT    NOT NULL,
    round_hash      TEXT,
    lease_until     INTEGER,
    attempt_until   INTEGER,
    first_sent_at   INTEGER,
    response        BLOB,
    created_at      INTEGER NOT NULL,
    settled_at      INTEGER,
    expires_at      INTEGER,
    PRIMARY KEY (tenant_id, service, tool, idempotency_key)
) STRICT;

CREATE INDEX idempotency_claims_twin ON idempotency_claims (tenant_id, args_hash);
CREATE INDEX idempotency_claims_expiry ON idempotency_claims (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idempotency_claims_open ON idempotency_claims (status, created_at)
    WHERE status IN ('in_flight', 'unknown');

CREATE INDEX idempotency_claims_unknown
    ON idempotency_claims (service, tool, coalesce(lease_until, created_at)) WHERE status = 'unknown';

CREATE TABLE audit_events (
    id              TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    tenant_id       TEXT    NOT NULL,
    service         TEXT    NOT NULL,
    user_id         TEXT    NOT NULL,
    session_id      TEXT,
    tool            TEXT    NOT NULL,
    decision        TEXT    NOT NULL CHECK (decision IN ('allowed', 'denied', 'replayed')),
    reason          TEXT,
    args_hash       TEXT,
    args            TEXT,
    result_summary  TEXT,
    idempotency_key TEXT,
    duration_ms     INTEGER,
    attempt_id      TEXT,
    executed        TEXT    NOT NULL CHECK (executed IN ('no', 'maybe', 'yes')),
    upstream_status INTEGER,
    policy_version  TEXT,
    trace_id        TEXT,
    protocol        TEXT,
    client          TEXT,
    PRIMARY KEY (tenant_id, id)
) STRICT;

CREATE INDEX audit_events_key ON audit_events (tenant_id, tool, idempotency_key);
CREATE INDEX audit_events_at ON audit_events (tenant_id, at);

-- One file, one service as a rule: most questions name no tenant.
CREATE INDEX audit_events_newest ON audit_events (at, id);
