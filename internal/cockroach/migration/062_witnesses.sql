-- What is known of claims that a restore has lost; see claim.Witness. Read while a restore
-- stands, and empty otherwise.
CREATE TABLE IF NOT EXISTS witnesses (
    tenant_id text NOT NULL,
    idem_key  text NOT NULL,
    -- JSON
    state     bytea NOT NULL,
    PRIMARY KEY (tenant_id, idem_key)
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
