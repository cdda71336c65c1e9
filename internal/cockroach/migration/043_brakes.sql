-- What stops automatic refunds; see webhook.Brake. A row for each provider, and one with
-- the name '' for all. Read for each compensation and written for each new one, from
-- every region.
CREATE TABLE IF NOT EXISTS brakes (
    provider text NOT NULL PRIMARY KEY,
    version  int8 NOT NULL,
    -- JSON
    state    bytea NOT NULL
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
