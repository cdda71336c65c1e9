-- How far the audit of a region is exported; see audit.Chain. A row for each region, which
-- each segment changes.
CREATE TABLE IF NOT EXISTS audit_chains (
    home_region  crdb_internal_region NOT NULL PRIMARY KEY,
    version      int8 NOT NULL,
    -- the last segment
    number       int8 NOT NULL,
    digest       text NOT NULL,
    -- where the window begins that is being exported, and how far in it
    from_at      timestamptz NOT NULL,
    part         int4 NOT NULL,
    after_tenant text NOT NULL,
    after_key    text NOT NULL,
    after_at     timestamptz,
    after_id     text NOT NULL,
    -- until when rows were looked for in segments, and deleted
    swept_until  timestamptz
)
{{- if .Cockroach }} LOCALITY REGIONAL BY ROW AS home_region{{ end }};
