-- name: notices_rewrite
UPDATE notices SET body = @body::bytea
WHERE home_region = @home::crdb_internal_region AND id = @id::text AND body = @old_body::bytea
