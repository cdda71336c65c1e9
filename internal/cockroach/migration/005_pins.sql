-- Which region is home to an opaque key, kept in the partition of the tenant's
-- registrar. With the region in front the key is checked in that partition only.
CREATE TABLE IF NOT EXISTS pins (
    registrar   crdb_internal_region NOT NULL,
    tenant_id   text NOT NULL,
    idem_key    text NOT NULL,
    home_region crdb_internal_region NOT NULL,
    -- when the home was fixed or last confirmed
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (registrar, tenant_id, idem_key)
    {{- if not .Cockroach }},
    -- One server keeps every partition, so it can be asked for what CockroachDB's
    -- serializable transactions give: no second pin while a registrar moves.
    UNIQUE (tenant_id, idem_key)
    {{- end }}
){{ if .Cockroach }} LOCALITY REGIONAL BY ROW AS registrar{{ end }};
