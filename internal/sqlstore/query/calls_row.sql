-- name: calls_row
SELECT c.call_fence FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND c.object_id = @id::text AND c.call_created IS NOT NULL
