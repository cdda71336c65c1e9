-- name: look_events
-- Where events are due: when the first of them that waits for no other can be taken, and
-- else the first that is not due yet. It is apart from look, as most homes have none due,
-- and to plan it takes longer than all of look.
SELECT coalesce(
       (SELECT o.due FROM events AS o
        WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked AND o.due <= now()
          -- No row of its line came before it. The comparisons are spelt out, as CockroachDB looks no row
          -- up by its key for one of tuples. The offset changes nothing but that PostgreSQL looks each
          -- row up, and does not join, which it would do by guesses where it has no statistics.
          AND NOT EXISTS (
              SELECT 1 FROM events AS e
              WHERE e.home_region = @home::crdb_internal_region AND e.tenant_id = o.tenant_id AND e.idem_key = o.idem_key
                AND e.kind = o.kind AND NOT e.parked
                AND (e.created_at < o.created_at OR e.created_at = o.created_at AND e.id < o.id)
              OFFSET 0)
        ORDER BY o.home_region, o.due, o.id LIMIT 1),
       (SELECT due FROM events
        WHERE home_region = @home::crdb_internal_region AND NOT parked AND due > now()
        ORDER BY home_region, due, id LIMIT 1))
