-- Which account each provider's name stands for; see package account. A row for each name
-- that has been in use. A node of the version before knows none of it.
CREATE TABLE IF NOT EXISTS accounts (
    provider text NOT NULL PRIMARY KEY,
    version  int8 NOT NULL,
    -- JSON
    state    bytea NOT NULL
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
