-- name: notices_drop_bodies
-- What was acted on some time ago says only what became of it.
UPDATE notices AS n SET body = ''
FROM (
    SELECT id FROM notices
    WHERE home_region = @home::crdb_internal_region AND processed_at <= now() - @keep_for::interval AND length(body) > 0
    ORDER BY home_region, processed_at
    LIMIT @limit::int8
) AS old
WHERE n.home_region = @home::crdb_internal_region AND n.id = old.id AND length(n.body) > 0
