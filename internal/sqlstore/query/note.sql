-- name: note
-- Audit of what happened outside any step. An entry without a time is as old as
-- it has waited.
INSERT INTO audit (home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
SELECT n.home::crdb_internal_region, n.tenant_id, n.idem_key, coalesce(n.at, now() - n.waited),
       n.id, n.event, n.region, n.node, n.fence, n.generation, n.detail
FROM unnest(
    @entries_home::text[], @entries_tenant_id::text[], @entries_idem_key::text[],
    @entries_at::timestamptz[], @entries_waited::interval[], @entries_id::uuid[], @entries_event::text[],
    @entries_region::text[], @entries_node::text[], @entries_fence::int8[], @entries_generation::int4[],
    @entries_detail::text[]
) AS n (home, tenant_id, idem_key, at, waited, id, event, region, node, fence, generation, detail)
ON CONFLICT (home_region, tenant_id, idem_key, at, id) DO NOTHING
