-- Two roles for one database, made once by its administrator, before the first `oncegate migrate`:
--
--     psql --set owner_password=… --set gate_password=… --file roles.sql postgres://admin@db/oncegate
--
-- The owner makes and changes tables; only the migration logs in as it. The gate's login role may do what the group
-- oncegate_gate may, which `oncegate migrate` grants: audit rows are added and read, never changed or deleted.
CREATE ROLE oncegate_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE oncegate_gate NOLOGIN;
CREATE ROLE oncegate LOGIN PASSWORD :'gate_password';
GRANT oncegate_gate TO oncegate;
SELECT format('GRANT CREATE, CONNECT ON DATABASE %I TO oncegate_owner', current_database()) \gexec
SELECT format('GRANT CONNECT ON DATABASE %I TO oncegate', current_database()) \gexec
