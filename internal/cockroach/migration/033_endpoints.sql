-- Where tenants want to be told; see relay.Endpoint. Read for every delivery and
-- written when something changes. The secrets sign, so they are kept as they are.
CREATE TABLE IF NOT EXISTS endpoints (
    tenant_id     text NOT NULL PRIMARY KEY,
    url           text NOT NULL,
    secrets       text[] NOT NULL,
    failing_since timestamptz,
    disabled_at   timestamptz
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
