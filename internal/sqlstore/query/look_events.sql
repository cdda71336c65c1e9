-- name: look_events
-- Where events are due: when the first of them that waits for no other can be taken, and
-- else the first that is not due yet. It is apart from look, as most homes have none due,
-- and to plan it takes longer than all of look.
SELECT coalesce(
       (SELECT o.due FROM events AS o
        WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked AND o.due <= now()
          AND {{ .First }}
        ORDER BY o.home_region, o.due, o.id LIMIT 1),
       (SELECT due FROM events
        WHERE home_region = @home::crdb_internal_region AND NOT parked AND due > now()
        ORDER BY home_region, due, id LIMIT 1))
