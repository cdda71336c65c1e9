-- name: events_take
-- As expiries_take.
-- A row waits until those of its key and kind that came before it are finished or
-- parked. Who holds one of them need not be known for that: it is there until it is
-- finished. One that is finished at this moment lets its next be taken a look later.
WITH ready AS (
    SELECT o.tenant_id, o.idem_key, o.id, o.due FROM events AS o
    WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked AND o.due <= now()
      -- As in look_events.
      AND NOT EXISTS (
          SELECT 1 FROM events AS e
          WHERE e.home_region = @home::crdb_internal_region AND e.tenant_id = o.tenant_id AND e.idem_key = o.idem_key
            AND e.kind = o.kind AND NOT e.parked
            AND (e.created_at < o.created_at OR e.created_at = o.created_at AND e.id < o.id)
          OFFSET 0)
    ORDER BY o.home_region, o.due, o.id
    LIMIT @limit::int8
    FOR UPDATE SKIP LOCKED
)
UPDATE events AS o SET fence = o.fence + 1, due = now() + @lease::interval
FROM ready
WHERE o.home_region = @home::crdb_internal_region AND o.tenant_id = ready.tenant_id AND o.idem_key = ready.idem_key AND o.id = ready.id
RETURNING ready.due, o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
          o.created_at, o.due, o.fence, o.attempts, o.last_error, o.parked
