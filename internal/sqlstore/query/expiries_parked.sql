-- name: expiries_parked
SELECT coalesce(o.due, o.created_at), o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
       o.created_at, coalesce(o.due, o.created_at), o.fence, o.attempts, o.last_error, o.due IS NULL
FROM expiries AS o
WHERE o.home_region = @home::crdb_internal_region AND o.due IS NULL AND o.id > @after::text
ORDER BY o.home_region, o.id
LIMIT @limit::int8
