-- What providers said unasked, as they said it; see webhook.Notice. An event that
-- they repeat is known by its id.
CREATE TABLE IF NOT EXISTS notices (
    home_region  crdb_internal_region NOT NULL,
    id           text NOT NULL,
    provider     text NOT NULL,
    body         bytea NOT NULL,
    received_at  timestamptz NOT NULL,
    -- NULL while status is UNPROCESSED
    processed_at timestamptz,
    status       text NOT NULL,
    detail       text NOT NULL,
    trace_parent text NOT NULL,
    -- from when housekeeping may delete the row; NULL while it is to be acted on
    removable_at timestamptz,
    PRIMARY KEY (home_region, id)
)
{{- if .Cockroach }} WITH (ttl_expiration_expression = 'removable_at', ttl_job_cron = '@hourly')
LOCALITY REGIONAL BY ROW AS home_region{{ end }};
