-- name: audit_page
-- The next rows of a region's audit, in the order of their keys, and between them the first
-- lines of claims that are not settled, which are in the claims' rows. Those of a window are
-- returned, with whose object they are of and the provider's reference, where the claim is
-- there and of the same life. Every row has the place where the next page begins; NULLs
-- after the last page. A few seconds old on CockroachDB: a scan with authority would be in
-- the way of those who write.
--
-- Both tables are read from the same place on, so many rows of each, and what is behind the
-- end of either is left to the next page. One row of claims more is read, as the first may
-- be that of the place itself.
WITH noted AS (
    SELECT tenant_id, idem_key, at, id, event, region, node, fence, generation, detail, attempt_id, attempt_event, attempt_detail, begun_id, begun_at, begun_region, begun_node, begun_detail
    FROM audit
    WHERE home_region = @home::crdb_internal_region
      AND (tenant_id, idem_key, at, id) > (@tenant_id::text, @idem_key::text, @at::timestamptz, @id::uuid)
    ORDER BY home_region, tenant_id, idem_key, at, id
    LIMIT @limit::int8
), held AS (
    SELECT tenant_id, idem_key, first_use, coalesce(begun_id, '00000000-0000-0000-0000-000000000000') AS begun, begun_region, begun_node, operation,
           begun_id IS NOT NULL AND begun_noted IS NULL AS pending
    FROM claims
    WHERE home_region = @home::crdb_internal_region AND (tenant_id, idem_key) >= (@tenant_id::text, @idem_key::text)
    ORDER BY home_region, tenant_id, idem_key
    LIMIT @limit::int8 + 1
), ends (tenant_id, idem_key, at, id) AS (
    (SELECT tenant_id, idem_key, at, id FROM noted
     WHERE (SELECT count(*) FROM noted) = @limit::int8
     ORDER BY tenant_id DESC, idem_key DESC, at DESC, id DESC
     LIMIT 1)
    UNION ALL
    (SELECT tenant_id, idem_key, first_use, begun FROM held
     WHERE (SELECT count(*) FROM held) > @limit::int8
     ORDER BY tenant_id DESC, idem_key DESC
     LIMIT 1)
), behind AS (
    SELECT e.tenant_id, e.idem_key, e.at, e.id
    FROM (SELECT 1) AS one
    LEFT JOIN ends AS e ON true
    ORDER BY e.tenant_id, e.idem_key, e.at, e.id
    LIMIT 1
), page AS (
    SELECT tenant_id, idem_key, at, id, event, region, node, fence, generation, detail, attempt_id, attempt_event, attempt_detail, begun_id, begun_at, begun_region, begun_node, begun_detail
    FROM noted
    -- The clock that began a claim may be ahead of the one that settled it.
    WHERE least(begun_at, at) < @to::timestamptz AND greatest(begun_at, at) >= @from::timestamptz
    UNION ALL
    SELECT tenant_id, idem_key, first_use, begun, 'claimed', begun_region, begun_node, 1, 1, operation, NULL::uuid, NULL::text, NULL::text, NULL::uuid, NULL::timestamptz, NULL::text, NULL::text, NULL::text
    FROM held
    WHERE pending AND first_use < @to::timestamptz AND first_use >= @from::timestamptz
      AND (tenant_id, idem_key, first_use, begun) > (@tenant_id::text, @idem_key::text, @at::timestamptz, @id::uuid)
)
SELECT b.tenant_id, b.idem_key, b.at, b.id,
       p.tenant_id, p.idem_key, p.at, p.id, p.event, p.region, p.node, p.fence, p.generation, p.detail,
       p.attempt_id, p.attempt_event, p.attempt_detail, p.begun_id, p.begun_at, p.begun_region, p.begun_node, p.begun_detail,
       c.object_id, c.provider_ref, c.provider_key, c.generation, c.first_use, c.fingerprint_version, c.fingerprint
FROM behind AS b
LEFT JOIN page AS p ON b.id IS NULL OR (p.tenant_id, p.idem_key, p.at, p.id) <= (b.tenant_id, b.idem_key, b.at, b.id)
LEFT JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = p.tenant_id AND c.idem_key = p.idem_key AND c.first_use <= greatest(p.at, p.begun_at)
