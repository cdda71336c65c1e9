-- name: expiries_take
-- Leases due rows, oldest first; rows that another worker holds are skipped.
WITH ready AS (
    SELECT o.id, o.due FROM expiries AS o
    WHERE o.home_region = @home::crdb_internal_region AND o.due <= now()
    ORDER BY o.home_region, o.due, o.id
    LIMIT @limit::int8
    FOR UPDATE SKIP LOCKED
)
UPDATE expiries AS o SET fence = o.fence + 1, due = now() + @lease::interval
FROM ready
WHERE o.home_region = @home::crdb_internal_region AND o.id = ready.id
RETURNING ready.due, o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
          o.created_at, o.due, o.fence, o.attempts, o.last_error, o.due IS NULL
