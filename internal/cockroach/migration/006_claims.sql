-- The row that owns a key; see claim.Record for what the columns mean.
CREATE TABLE IF NOT EXISTS claims (
    home_region         crdb_internal_region NOT NULL,
    tenant_id           text NOT NULL,
    idem_key            text NOT NULL,
    object_id           text NOT NULL,
    operation           text NOT NULL,
    fingerprint_version int2 NOT NULL,
    fingerprint         bytea NOT NULL,
    -- 1 in flight, 2 completed, 3 failed for good, 4 released
    state               int2 NOT NULL CHECK (state BETWEEN 1 AND 4),
    fence               int8 NOT NULL CHECK (fence > 0),
    holder              text NOT NULL,
    lease_until         timestamptz NOT NULL,
    held_since          timestamptz NOT NULL,
    first_use           timestamptz NOT NULL,
    created             timestamptz NOT NULL,
    receipt             text NOT NULL,
    generation          int4 NOT NULL,
    provider_key        text NOT NULL,
    attempts            int4 NOT NULL,
    unknowns            int4 NOT NULL,
    not_founds          int4 NOT NULL,
    reason              text NOT NULL,
    provider_ref        text NOT NULL,
    settled_at          timestamptz,
    -- names the write that made this version of the row: whoever lost the reply
    -- to a write finds out with it whether the write is there
    step                uuid NOT NULL,
    -- from when housekeeping may delete the row; NULL while an outcome is owed
    removable_at        timestamptz,
    PRIMARY KEY (home_region, tenant_id, idem_key)
)
{{- if .Cockroach }} WITH (ttl_expiration_expression = 'removable_at', ttl_job_cron = '@hourly')
LOCALITY REGIONAL BY ROW AS home_region{{ end }};
