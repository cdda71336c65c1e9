-- name: notices_close
-- A notice has been acted on: its row goes, and it says how.
WITH finished AS (
    DELETE FROM notices_due
    WHERE home_region = @home::crdb_internal_region AND id = @id::text AND fence = @fence::int8 AND NOT parked
    RETURNING id
), closed AS (
    UPDATE notices SET
        status = @status::text, detail = @detail::text, processed_at = now(),
        removable_at = greatest(now(), received_at + @keep_for::interval)
    FROM finished
    WHERE notices.home_region = @home::crdb_internal_region AND notices.id = finished.id
    RETURNING notices.home_region
)
SELECT id FROM finished
