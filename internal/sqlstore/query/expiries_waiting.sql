-- name: expiries_waiting
-- What is due first, for people: nothing is taken. The first rows are found by what the index has.
SELECT o.due, o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
       o.created_at, o.due, o.fence, o.attempts, o.last_error, false
FROM (
    SELECT w.id
    FROM expiries AS w
    WHERE w.home_region = @home::crdb_internal_region AND w.due IS NOT NULL
    ORDER BY w.home_region, w.due, w.id
    LIMIT @limit::int8
) AS f
JOIN expiries AS o ON o.home_region = @home::crdb_internal_region AND o.id = f.id
WHERE o.due IS NOT NULL
ORDER BY o.due, o.id
