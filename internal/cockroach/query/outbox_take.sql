-- name: outbox_take
-- Leases due rows, oldest first; rows that another worker holds are skipped.
WITH ready AS (
    SELECT id, due FROM outbox
    WHERE home_region = $1::crdb_internal_region AND NOT parked AND due <= now()
    ORDER BY home_region, due, id
    LIMIT $2::int8
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox AS o SET fence = o.fence + 1, due = now() + $3::interval
FROM ready
WHERE o.home_region = $1::crdb_internal_region AND o.id = ready.id
RETURNING ready.due, {{ .Message }}
