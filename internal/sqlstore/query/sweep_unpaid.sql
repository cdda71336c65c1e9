-- name: sweep_unpaid
-- Deletes what no provider surprises with any more. PostgreSQL only: CockroachDB's
-- row-level TTL does the same.
DELETE FROM unpaid AS u
USING (
    SELECT home_region, object_id FROM unpaid
    WHERE removable_at <= now() ORDER BY removable_at LIMIT @limit::int8 FOR UPDATE SKIP LOCKED
) AS g
WHERE u.home_region = g.home_region AND u.object_id = g.object_id AND u.removable_at <= now()
