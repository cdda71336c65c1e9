-- name: reversing
-- What a tenant has in flight in a region that reverses an object, the latest first. The conditions
-- on reverses and state are those of the index.
SELECT c.object_id, c.created, c.call_payload
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND c.reverses = @reverses::text AND c.reverses IS NOT NULL AND c.state = 1
  AND c.tenant_id = @tenant_id::text
ORDER BY c.created DESC, c.object_id DESC
LIMIT @limit::int8
