-- API keys by their SHA-256. The keys are 256 random bits, so a plain hash is
-- enough: there is nothing to guess, and no salt to look up first.
CREATE TABLE IF NOT EXISTS api_keys (
    hash       bytea NOT NULL PRIMARY KEY,
    tenant_id  text NOT NULL REFERENCES tenants (id),
    created_at timestamptz NOT NULL,
    -- set when the key is rotated; NULL: it does not end
    expires_at timestamptz
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
