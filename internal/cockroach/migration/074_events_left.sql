-- Events of final settlements, left with the nodes that settle. One that such a node delivers
-- and finishes has no other entry than this row; what is due here is moved to events. In the
-- order of their creation, which is settled_at of their claims: so the row is found by its
-- claim.
CREATE TABLE IF NOT EXISTS events_left (
    home_region  crdb_internal_region NOT NULL,
    created_at   timestamptz NOT NULL,
    id           text NOT NULL,
    kind         text NOT NULL,
    tenant_id    text NOT NULL,
    idem_key     text NOT NULL,
    operation    text NOT NULL,
    payload      bytea NOT NULL,
    trace_parent text NOT NULL,
    -- created_at if it was left with nobody
    due          timestamptz NOT NULL,
    PRIMARY KEY (home_region, created_at, id)
){{ if .Cockroach }} LOCALITY REGIONAL BY ROW AS home_region{{ end }};
