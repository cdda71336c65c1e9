-- What every retry reads. A row is written once and never changed.
CREATE TABLE IF NOT EXISTS responses (
    home_region   crdb_internal_region NOT NULL,
    tenant_id     text NOT NULL,
    object_id     text NOT NULL,
    status        int2 NOT NULL,
    header_names  text[] NOT NULL,
    header_values bytea[] NOT NULL,
    body          bytea NOT NULL,
    -- names the body in the object store, when it is too large for the row
    blob          text NOT NULL,
    removable_at  timestamptz NOT NULL,
    PRIMARY KEY (home_region, tenant_id, object_id)
)
{{- if .Cockroach }} WITH (ttl_expiration_expression = 'removable_at', ttl_job_cron = '@hourly')
LOCALITY REGIONAL BY ROW AS home_region{{ end }};
