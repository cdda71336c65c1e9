-- name: notices_due_rewrite
UPDATE notices_due SET payload = $4::bytea
WHERE home_region = $1::crdb_internal_region AND id = $2::text AND payload = $3::bytea
