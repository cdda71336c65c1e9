-- name: notices_bodies
SELECT id, body FROM notices
WHERE home_region = @home::crdb_internal_region AND id > @after::text AND length(body) > 0
ORDER BY home_region, id
LIMIT @limit::int8
