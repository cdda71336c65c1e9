-- name: notice
SELECT provider, body, received_at, processed_at, status, detail, trace_parent
FROM notices
WHERE home_region = $1::crdb_internal_region AND id = $2::text
