-- name: notices_rewrite
UPDATE notices SET body = $4::bytea
WHERE home_region = $1::crdb_internal_region AND id = $2::text AND body = $3::bytea
