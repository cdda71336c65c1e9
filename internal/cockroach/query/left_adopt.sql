-- name: left_adopt
-- Moves events whose node has not finished them in time to the queue, and those that were
-- left with nobody. Rows that another worker moves are skipped.
WITH due AS (
    SELECT created_at, id FROM events_left
    WHERE home_region = @home::crdb_internal_region AND due <= now()
    ORDER BY home_region, created_at, id
    LIMIT @limit::int8
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM events_left AS l
    USING due
    WHERE l.home_region = @home::crdb_internal_region AND l.created_at = due.created_at AND l.id = due.id
    RETURNING {{ .Left }}, l.due
)
INSERT INTO events (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
SELECT @home::crdb_internal_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, {{ .LeftTaken }}
FROM gone
ON CONFLICT DO NOTHING
