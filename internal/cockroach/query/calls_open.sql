-- name: calls_open
-- One page of a region's provider calls, whether they are due, held or parked.
SELECT o.due, {{ .Message }}
FROM outbox AS o
WHERE o.home_region = @home::crdb_internal_region AND o.id > @after::text
ORDER BY o.home_region, o.id
LIMIT @limit::int8
