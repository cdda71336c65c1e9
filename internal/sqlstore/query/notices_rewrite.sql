-- name: notices_rewrite
-- Writes the body of a notice anew, and of its row in the queue, if it has one.
WITH queued AS (
    UPDATE notices_due SET payload = @body::bytea
    WHERE home_region = @home::crdb_internal_region AND id = @id::text AND payload = @old_body::bytea
    RETURNING id
)
UPDATE notices SET body = @body::bytea
WHERE home_region = @home::crdb_internal_region AND id = @id::text AND body = @old_body::bytea
