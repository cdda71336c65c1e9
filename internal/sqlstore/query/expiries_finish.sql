-- name: expiries_finish
-- Removes rows that end together. Those that somebody else has taken since are left.
--
-- PostgreSQL without statistics believes that a region has few rows, and would read all of them
-- to find some. The offset hides from it that they are of one region, so that it looks up each
-- by its key; CockroachDB sees that it is none.
DELETE FROM expiries AS o
USING (
    SELECT r.tenant_id, r.idem_key, r.id, r.fence, @home::crdb_internal_region AS home_region
    FROM unnest(@rows_tenant_id::text[], @rows_idem_key::text[], @rows_id::text[], @rows_fence::int8[]) AS r (tenant_id, idem_key, id, fence)
    OFFSET 0
) AS h
WHERE o.home_region = h.home_region AND o.tenant_id = h.tenant_id AND o.idem_key = h.idem_key AND o.id = h.id AND o.fence = h.fence AND o.due IS NOT NULL
