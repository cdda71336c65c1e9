-- name: calls_message
-- One call with authority, whoever holds it.
SELECT coalesce(c.call_due, c.call_parked), {{ .Call }}
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND c.object_id = @id::text AND c.call_created IS NOT NULL
