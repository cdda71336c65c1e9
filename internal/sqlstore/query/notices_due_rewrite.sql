-- name: notices_due_rewrite
UPDATE notices_due SET payload = @body::bytea
WHERE home_region = @home::crdb_internal_region AND id = @id::text AND payload = @old_body::bytea
