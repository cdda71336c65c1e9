-- name: timeline
SELECT at, event, region, node, fence, generation, detail
FROM audit
WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
ORDER BY at DESC, id DESC
LIMIT @limit::int8
