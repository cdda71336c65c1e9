-- name: calls_depth
-- As outbox_depth, with former calls: see calls_adopt.
SELECT (SELECT count(*) FROM (
            SELECT 1 FROM claims AS c
            WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL LIMIT @limit::int8) AS p)
     + (SELECT count(*) FROM (
            SELECT 1 FROM outbox AS o
            WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked LIMIT @limit::int8) AS p),
       (SELECT count(*) FROM (
            SELECT 1 FROM claims AS c
            WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL AND c.call_due <= now() LIMIT @limit::int8) AS d)
     + (SELECT count(*) FROM (
            SELECT 1 FROM outbox AS o
            WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked AND o.due <= now() LIMIT @limit::int8) AS d),
       (SELECT count(*) FROM (
            SELECT 1 FROM claims AS c
            WHERE c.home_region = @home::crdb_internal_region AND c.call_parked IS NOT NULL AND {{ .Open }} LIMIT @limit::int8) AS k)
     + (SELECT count(*) FROM (
            SELECT 1 FROM outbox AS o
            WHERE o.home_region = @home::crdb_internal_region AND o.parked LIMIT @limit::int8) AS k),
       least(
           (SELECT c.call_due FROM claims AS c
            WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL AND c.call_due <= now()
            ORDER BY c.home_region, c.call_due LIMIT 1),
           (SELECT o.due FROM outbox AS o
            WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked AND o.due <= now()
            ORDER BY o.home_region, o.due LIMIT 1))
