-- name: expiries_message
-- One row with authority, whoever holds it.
SELECT coalesce(o.due, o.created_at), o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
       o.created_at, coalesce(o.due, o.created_at), o.fence, o.attempts, o.last_error, o.due IS NULL
FROM expiries AS o
WHERE o.home_region = @home::crdb_internal_region AND o.id = @id::text
