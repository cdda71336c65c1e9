-- name: expiries_waiting
-- What is due first, for people: nothing is taken.
SELECT o.due, o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
          o.created_at, o.due, o.fence, o.attempts, o.last_error, o.parked
FROM expiries AS o
WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked
ORDER BY o.home_region, o.due, o.id
LIMIT @limit::int8
