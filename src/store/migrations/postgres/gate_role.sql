-- What the gate's own role may do: audit rows can be added and read, never changed or deleted. What has become too old
-- goes by functions of the owner's, which keep every row for as long as the owner has said at least.
-- Run at the end of every `oncegate migrate` where a role of this name exists:
--
--     CREATE ROLE oncegate_gate NOLOGIN;
--     GRANT oncegate_gate TO the_login_role_of_the_gate;
--
GRANT USAGE ON SCHEMA oncegate TO oncegate_gate;
GRANT SELECT ON oncegate.schema_version, oncegate.retention TO oncegate_gate;
GRANT SELECT, INSERT, UPDATE, DELETE ON oncegate.idempotency_claims TO oncegate_gate;
GRANT SELECT, INSERT ON oncegate.audit_events TO oncegate_gate;
GRANT SELECT, INSERT, UPDATE ON oncegate.leases TO oncegate_gate;
GRANT EXECUTE ON FUNCTION oncegate.keep_audit(interval, bigint), oncegate.audit_due(interval) TO oncegate_gate;
