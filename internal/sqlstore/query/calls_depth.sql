-- name: calls_depth
-- As expiries_depth.
SELECT (SELECT count(*) FROM (
            SELECT 1 FROM claims AS c
            WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL LIMIT @limit::int8) AS p),
       (SELECT count(*) FROM (
            SELECT 1 FROM claims AS c
            WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL AND c.call_due <= now() LIMIT @limit::int8) AS d),
       (SELECT count(*) FROM (
            SELECT 1 FROM claims AS c
            WHERE c.home_region = @home::crdb_internal_region AND c.call_parked IS NOT NULL LIMIT @limit::int8) AS k),
       (SELECT c.call_due FROM claims AS c
        WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL AND c.call_due <= now()
        ORDER BY c.home_region, c.call_due LIMIT 1)
