-- name: events_take
-- As expiries_take. A row that is behind another of its key and kind is not taken: it is due again
-- after a second, or with one before it that has failed. So rows that wait are not in the way of
-- those that can be taken.
WITH ready AS (
    SELECT o.tenant_id, o.idem_key, o.id, o.due -- what the index has
    FROM events AS o
    WHERE o.home_region = @home::crdb_internal_region AND o.due <= now()
    ORDER BY o.home_region, o.due, o.id
    LIMIT @limit::int8
    FOR UPDATE SKIP LOCKED
), lined AS (
    -- Who holds a row before it need not be known: it is there until it is finished or parked.
    SELECT r.tenant_id, r.idem_key, r.id, r.due AS was, (
        SELECT max(greatest(now() + '1 second'::interval, CASE WHEN e.attempts > 0 THEN e.due END))
        FROM events AS e
        WHERE e.home_region = @home::crdb_internal_region AND e.tenant_id = m.tenant_id AND e.idem_key = m.idem_key
          AND e.kind = m.kind AND e.due IS NOT NULL
          -- Spelt out, as CockroachDB looks no row up by its key for a comparison of tuples.
          AND (e.created_at < m.created_at OR e.created_at = m.created_at AND e.id < m.id)
    ) AS again
    FROM ready AS r
    JOIN events AS m ON m.home_region = @home::crdb_internal_region AND m.tenant_id = r.tenant_id AND m.idem_key = r.idem_key AND m.id = r.id
)
UPDATE events AS o SET
    fence = CASE WHEN l.again IS NULL THEN o.fence + 1 ELSE o.fence END,
    due = coalesce(l.again, now() + @lease::interval)
FROM lined AS l
WHERE o.home_region = @home::crdb_internal_region AND o.tenant_id = l.tenant_id AND o.idem_key = l.idem_key AND o.id = l.id
RETURNING l.was, o.id, o.kind, o.tenant_id, o.idem_key, o.operation, o.payload, o.trace_parent,
          o.created_at, o.due, o.fence, o.attempts, o.last_error, l.again IS NOT NULL
