-- name: calls_park
UPDATE claims AS c SET call_parked = c.call_due, call_due = NULL, call_error = @reason::text
WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = @tenant_id::text AND c.idem_key = @idem_key::text
  AND c.object_id = @id::text AND c.call_fence = @fence::int8 AND c.call_parked IS NULL
RETURNING c.fence
