-- The merchants. Read by every request and written by people, so the copy in
-- each region is consistent and its writes are slow.
CREATE TABLE IF NOT EXISTS tenants (
    id                 text NOT NULL PRIMARY KEY,
    name               text NOT NULL,
    registrar          crdb_internal_region NOT NULL,
    -- Still looked at until the last of its pins is gone.
    previous_registrar crdb_internal_region,
    registrar_moved_at timestamptz,
    rate_per_second    float8 NOT NULL DEFAULT 0,
    burst              int4 NOT NULL DEFAULT 0,
    created_at         timestamptz NOT NULL
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
