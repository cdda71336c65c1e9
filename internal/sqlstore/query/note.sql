-- name: note
-- Audit of what happened outside any step. An entry without a time is as old as
-- it has waited.
INSERT INTO audit (home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
SELECT n.home::crdb_internal_region, n.tenant_id, n.idem_key, coalesce(n.at, now() - n.waited),
       n.id, n.event, n.region, n.node, n.fence, n.generation, n.detail
FROM @entries AS n (
    home text, tenant_id text, idem_key text, at timestamptz, waited interval,
    id uuid, event text, region text, node text, fence int8, generation int4, detail text)
ON CONFLICT (home_region, tenant_id, idem_key, at, id) DO NOTHING
