-- name: notices_bodies
SELECT id, body FROM notices
WHERE home_region = $1::crdb_internal_region AND id > $2::text AND length(body) > 0
ORDER BY home_region, id
LIMIT $3::int8
