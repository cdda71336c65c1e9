-- name: timeline
SELECT at, event, region, node, fence, generation, detail
FROM audit
WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text
ORDER BY at DESC, id DESC
LIMIT $4::int8
