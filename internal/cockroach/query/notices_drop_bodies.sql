-- name: notices_drop_bodies
-- What was acted on some time ago says only what became of it.
UPDATE notices AS n SET body = ''
FROM (
    SELECT id FROM notices
    WHERE home_region = $1::crdb_internal_region AND processed_at <= now() - $2::interval AND length(body) > 0
    ORDER BY home_region, processed_at
    LIMIT $3::int8
) AS old
WHERE n.home_region = $1::crdb_internal_region AND n.id = old.id AND length(n.body) > 0
