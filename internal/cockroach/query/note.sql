-- name: note
-- Audit of what happened outside any step. An entry without a time is as old as
-- it has waited.
INSERT INTO audit (home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
SELECT n.home_region::crdb_internal_region, n.tenant_id, n.idem_key, coalesce(n.at, now() - n.waited),
       n.id, n.event, n.region, n.node, n.fence, n.generation, n.detail
FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::interval[],
        $6::uuid[], $7::text[], $8::text[], $9::text[], $10::int8[], $11::int4[], $12::text[]
     ) AS n (home_region, tenant_id, idem_key, at, waited, id, event, region, node, fence, generation, detail)
ON CONFLICT (home_region, tenant_id, idem_key, at, id) DO NOTHING
