-- Everything that happened to a claim, for 400 days: a year and a month, which is
-- longer than a card payment can be disputed.
CREATE TABLE IF NOT EXISTS audit (
    home_region crdb_internal_region NOT NULL,
    tenant_id   text NOT NULL,
    idem_key    text NOT NULL,
    at          timestamptz NOT NULL,
    -- UUIDv7: orders what one statement, or one node, wrote
    id          uuid NOT NULL,
    event       text NOT NULL,
    region      text NOT NULL,
    node        text NOT NULL,
    fence       int8 NOT NULL,
    generation  int4 NOT NULL,
    detail      text NOT NULL,
    PRIMARY KEY (home_region, tenant_id, idem_key, at, id)
)
{{- if .Cockroach }} WITH (ttl_expiration_expression = '((at AT TIME ZONE ''utc'') + INTERVAL ''400 days'') AT TIME ZONE ''utc''', ttl_job_cron = '@daily')
LOCALITY REGIONAL BY ROW AS home_region{{ end }};
