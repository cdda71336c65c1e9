-- name: notice
SELECT provider, body, received_at, processed_at, status, detail, trace_parent
FROM notices
WHERE home_region = @home::crdb_internal_region AND id = @id::text
