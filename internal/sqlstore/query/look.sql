-- name: look
-- When the first row of each queue of a home is due, in one round trip and without a lock. Each
-- part walks the beginning of an index.
SELECT now(),
       (SELECT call_due FROM claims WHERE home_region = @home::crdb_internal_region AND call_due IS NOT NULL ORDER BY home_region, call_due, object_id LIMIT 1),
       (SELECT due FROM expiries WHERE home_region = @home::crdb_internal_region AND due IS NOT NULL ORDER BY home_region, due, id LIMIT 1),
       (SELECT due FROM notices_due WHERE home_region = @home::crdb_internal_region AND due IS NOT NULL ORDER BY home_region, due, id LIMIT 1),
       (SELECT due FROM events WHERE home_region = @home::crdb_internal_region AND due IS NOT NULL ORDER BY home_region, due, id LIMIT 1)
