-- name: sweep_notices
DELETE FROM notices AS n
USING (
    SELECT home_region, id FROM notices
    WHERE removable_at <= now() ORDER BY removable_at LIMIT @limit::int8
) AS g
WHERE n.home_region = g.home_region AND n.id = g.id
