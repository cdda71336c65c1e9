-- name: look
-- When the first row of each queue of a home can be taken, in one round trip and without
-- a lock. Of events the first that is due and waits for no other, or else the first that
-- is not due yet, and when one of the first thousand that were left with nodes is to be moved. Former calls are to
-- be adopted now. Each part walks the beginning of an index.
SELECT now(),
       EXISTS (SELECT 1 FROM outbox WHERE home_region = @home::crdb_internal_region),
       (SELECT call_due FROM claims WHERE home_region = @home::crdb_internal_region AND call_due IS NOT NULL ORDER BY home_region, call_due, object_id LIMIT 1),
       (SELECT due FROM expiries WHERE home_region = @home::crdb_internal_region AND NOT parked ORDER BY home_region, due, id LIMIT 1),
       (SELECT due FROM notices_due WHERE home_region = @home::crdb_internal_region AND NOT parked ORDER BY home_region, due, id LIMIT 1),
       (SELECT o.due FROM events AS o
        {{ .ClaimOf }}
        WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked AND o.due <= now()
          AND NOT EXISTS (
              SELECT 1 FROM events AS e
              WHERE e.home_region = @home::crdb_internal_region AND e.tenant_id = o.tenant_id AND e.idem_key = o.idem_key
                AND e.kind = o.kind AND NOT e.parked
                AND (e.created_at < o.created_at OR e.created_at = o.created_at AND e.id < o.id)
              OFFSET 0)
          AND NOT {{ .Earlier }}
        ORDER BY o.home_region, o.due, o.id LIMIT 1),
       (SELECT due FROM events
        WHERE home_region = @home::crdb_internal_region AND NOT parked AND due > now()
        ORDER BY home_region, due, id LIMIT 1),
       (SELECT min(due) FROM (
            SELECT due FROM events_left WHERE home_region = @home::crdb_internal_region
            ORDER BY home_region, created_at, id LIMIT 1000) AS l)
