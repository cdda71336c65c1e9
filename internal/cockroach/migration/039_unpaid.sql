-- Whose an object was for which no money moved; see claim.Unpaid. It outlives the
-- claim, which is deleted two days after its first use, and may be needed when a
-- provider tells of a late success. A row of a table of its own: kept in claims it
-- would be read by each hourly TTL job and by each reconciliation.
CREATE TABLE IF NOT EXISTS unpaid (
    home_region  crdb_internal_region NOT NULL,
    object_id    text NOT NULL,
    tenant_id    text NOT NULL,
    operation    text NOT NULL,
    -- 3 failed for good, 4 released, as in claims
    state        int2 NOT NULL CHECK (state IN (3, 4)),
    reason       text NOT NULL,
    at           timestamptz NOT NULL,
    -- from when housekeeping may delete the row
    removable_at timestamptz NOT NULL,
    PRIMARY KEY (home_region, object_id)
)
{{- if .Cockroach }} WITH (ttl_expiration_expression = 'removable_at', ttl_job_cron = '@daily')
LOCALITY REGIONAL BY ROW AS home_region{{ end }};
