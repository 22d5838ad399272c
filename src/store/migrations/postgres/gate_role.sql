-- What the gate's own role may do: audit rows can be added and read, never changed or deleted.
-- Run at the end of every `oncegate migrate` where a role of this name exists:
--
--     CREATE ROLE oncegate_gate NOLOGIN;
--     GRANT oncegate_gate TO the_login_role_of_the_gate;
--
GRANT USAGE ON SCHEMA oncegate TO oncegate_gate;
GRANT SELECT ON oncegate.schema_version TO oncegate_gate;
GRANT SELECT, INSERT, UPDATE, DELETE ON oncegate.idempotency_claims TO oncegate_gate;
GRANT SELECT, INSERT ON oncegate.audit_events TO oncegate_gate;
