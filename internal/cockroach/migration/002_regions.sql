-- The topology. A code stands in keys and object ids for ever: rows are marked
-- down, never deleted, and codes are never given out again.
CREATE TABLE IF NOT EXISTS regions (
    name   crdb_internal_region NOT NULL PRIMARY KEY,
    code   int4 NOT NULL UNIQUE CHECK (code BETWEEN 1 AND 65535),
    -- 0 active, 1 draining, 2 down
    status int2 NOT NULL DEFAULT 0,
    -- counts the changes of the whole table: a change sets max(epoch) + 1
    epoch  int8 NOT NULL DEFAULT 1
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
