-- name: calls_parked
SELECT c.call_parked, {{ .Call }}
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND c.call_parked IS NOT NULL AND c.object_id > @after::text
ORDER BY c.home_region, c.object_id
LIMIT @limit::int8
