-- name: calls_unpark
UPDATE claims AS c SET call_due = now(), call_parked = NULL, call_attempts = NULL
WHERE c.home_region = @home::crdb_internal_region AND c.object_id = @id::text AND c.call_parked IS NOT NULL
RETURNING c.fence
