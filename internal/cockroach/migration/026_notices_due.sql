-- Notices that are to be acted on; see outbox.Notices.
CREATE TABLE IF NOT EXISTS notices_due (
    home_region  crdb_internal_region NOT NULL,
    id           text NOT NULL,
    kind         text NOT NULL,
    tenant_id    text NOT NULL,
    idem_key     text NOT NULL,
    operation    text NOT NULL,
    payload      bytea NOT NULL,
    trace_parent text NOT NULL,
    created_at   timestamptz NOT NULL,
    due          timestamptz NOT NULL,
    fence        int8 NOT NULL,
    attempts     int4 NOT NULL DEFAULT 0,
    last_error   text NOT NULL DEFAULT '',
    parked       bool NOT NULL DEFAULT false,
    PRIMARY KEY (home_region, id)
){{ if .Cockroach }} LOCALITY REGIONAL BY ROW AS home_region{{ end }};
