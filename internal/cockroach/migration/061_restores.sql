-- That the rows are those of a backup, and which time they lack; see claim.Restore. One row,
-- where there ever was a restore; nodes read it when they start. A node of the version before
-- knows none of it.
CREATE TABLE IF NOT EXISTS restores (
    singleton bool NOT NULL PRIMARY KEY DEFAULT true CHECK (singleton),
    version   int8 NOT NULL,
    -- JSON
    state     bytea NOT NULL
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
