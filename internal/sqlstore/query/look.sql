-- name: look
-- When the first row of each queue of a home can be taken, in one round trip and without
-- a lock: of events the first of all, for which look_events asks further if it is due.
-- Each part walks the beginning of an index.
SELECT now(),
       (SELECT call_due FROM claims WHERE home_region = @home::crdb_internal_region AND call_due IS NOT NULL ORDER BY home_region, call_due, object_id LIMIT 1),
       (SELECT due FROM expiries WHERE home_region = @home::crdb_internal_region AND NOT parked ORDER BY home_region, due, id LIMIT 1),
       (SELECT due FROM notices_due WHERE home_region = @home::crdb_internal_region AND NOT parked ORDER BY home_region, due, id LIMIT 1),
       (SELECT due FROM events WHERE home_region = @home::crdb_internal_region AND NOT parked ORDER BY home_region, due, id LIMIT 1)
