-- Claims and audit rows. Key columns compare bytewise (COLLATE "C"): an index over a language's collation can turn
-- wrong when the operating system's collations change, and a unique index that is wrong lets a call run twice.

CREATE TABLE oncegate.idempotency_claims (
    tenant_id       text        COLLATE "C" NOT NULL,
    service         text        COLLATE "C" NOT NULL,
    tool            text        COLLATE "C" NOT NULL,
    idempotency_key text        COLLATE "C" NOT NULL,
    user_id         text        NOT NULL,
    args_hash       text        COLLATE "C" NOT NULL,
    status          text        NOT NULL
        CHECK (status IN ('in_flight', 'awaiting_input', 'completed', 'failed', 'unknown')),
    revision        bigint      NOT NULL,
    attempt_id      uuid        NOT NULL,
    attempt         text        NOT NULL,
    round_hash      text,
    lease_until     timestamptz,
    attempt_until   timestamptz,
    first_sent_at   timestamptz,
    response        bytea,
    created_at      timestamptz NOT NULL,
    settled_at      timestamptz,
    expires_at      timestamptz,
    PRIMARY KEY (tenant_id, service, tool, idempotency_key)
) WITH (fillfactor = 80);

-- For the twin of a new claim: same arguments, another key. Service and tool are left out on purpose: while the table
-- has no statistics, an index with as long a prefix as the primary key's is taken for it, and read from end to end.
CREATE INDEX idempotency_claims_twin ON oncegate.idempotency_claims (tenant_id, args_hash);

-- For pruning.
CREATE INDEX idempotency_claims_expiry ON oncegate.idempotency_claims (expires_at) WHERE expires_at IS NOT NULL;

-- For whoever looks after claims that nobody settled: few rows, whatever the table holds.
CREATE INDEX idempotency_claims_open ON oncegate.idempotency_claims (status, created_at)
    WHERE status IN ('in_flight', 'unknown');

-- For whoever asks the app about unknown ones: those first that were left alone longest. Nothing but unknown claims is in
-- it, so that a call that ends well never touches it.
CREATE INDEX idempotency_claims_unknown
    ON oncegate.idempotency_claims (service, tool, (coalesce(lease_until, created_at))) WHERE status = 'unknown';

CREATE TABLE oncegate.audit_events (
    id              uuid        NOT NULL,
    at              timestamptz NOT NULL,
    tenant_id       text        COLLATE "C" NOT NULL,
    service         text        COLLATE "C" NOT NULL,
    user_id         text        NOT NULL,
    session_id      text,
    tool            text        COLLATE "C" NOT NULL,
    decision        text        NOT NULL CHECK (decision IN ('allowed', 'denied', 'replayed')),
    reason          text,
    args_hash       text,
    args            text,
    result_summary  text,
    idempotency_key text        COLLATE "C",
    duration_ms     bigint,
    attempt_id      uuid,
    executed        text        NOT NULL CHECK (executed IN ('no', 'maybe', 'yes')),
    upstream_status integer,
    policy_version  text,
    trace_id        text,
    protocol        text,
    client          text,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX audit_events_key ON oncegate.audit_events (tenant_id, tool, idempotency_key);
CREATE INDEX audit_events_at ON oncegate.audit_events (tenant_id, at);
