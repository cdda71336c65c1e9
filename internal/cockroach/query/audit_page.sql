-- name: audit_page
-- The next rows of a region's audit, in the order of their keys, of which those of a window
-- are returned, with whose object they are of and the provider's reference, where the claim
-- is there and of the same life. Every row has the last one that was looked at, and how
-- many were. A few seconds old on CockroachDB: a scan with authority would be in the way of
-- those who write.
WITH page AS (
    SELECT tenant_id, idem_key, at, id, event, region, node, fence, generation, detail
    FROM audit
    WHERE home_region = @home::crdb_internal_region
      AND (tenant_id, idem_key, at, id) > (@tenant_id::text, @idem_key::text, @at::timestamptz, @id::uuid)
    ORDER BY home_region, tenant_id, idem_key, at, id
    LIMIT @limit::int8
), behind AS (
    SELECT tenant_id, idem_key, at, id, (SELECT count(*) FROM page) AS seen
    FROM page
    ORDER BY tenant_id DESC, idem_key DESC, at DESC, id DESC
    LIMIT 1
)
SELECT b.seen, b.tenant_id, b.idem_key, b.at, b.id,
       p.tenant_id, p.idem_key, p.at, p.id, p.event, p.region, p.node, p.fence, p.generation, p.detail,
       c.object_id, c.provider_ref, c.provider_key, c.generation, c.first_use, c.fingerprint_version, c.fingerprint
FROM behind AS b
LEFT JOIN page AS p ON p.at >= @from::timestamptz AND p.at < @to::timestamptz
LEFT JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = p.tenant_id AND c.idem_key = p.idem_key AND c.first_use <= p.at
{{ .FromReplica }}
