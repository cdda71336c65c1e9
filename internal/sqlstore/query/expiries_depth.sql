-- name: expiries_depth
-- Of each sort it counts so many rows: beyond them the exact number changes nothing, and
-- an outage may leave millions.
SELECT (SELECT count(*) FROM (
            SELECT 1 FROM expiries AS o
            WHERE o.home_region = @home::crdb_internal_region AND o.due IS NOT NULL LIMIT @limit::int8) AS p),
       (SELECT count(*) FROM (
            SELECT 1 FROM expiries AS o
            WHERE o.home_region = @home::crdb_internal_region AND o.due <= now() LIMIT @limit::int8) AS d),
       (SELECT count(*) FROM (
            SELECT 1 FROM expiries AS o
            WHERE o.home_region = @home::crdb_internal_region AND o.due IS NULL LIMIT @limit::int8) AS k),
       (SELECT o.due FROM expiries AS o
        WHERE o.home_region = @home::crdb_internal_region AND o.due <= now()
        ORDER BY o.home_region, o.due LIMIT 1)
