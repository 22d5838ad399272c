-- Who does what only one need do: a gate, or somebody by hand beside it. The rest of this step is Postgres's.
CREATE TABLE leases (
    what    TEXT    NOT NULL PRIMARY KEY,
    holder  TEXT    NOT NULL,
    until   INTEGER NOT NULL
) STRICT;
