-- name: calls_waiting
-- As outbox_waiting.
SELECT c.call_due, {{ .Call }}
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL
ORDER BY c.home_region, c.call_due, c.object_id
LIMIT @limit::int8
