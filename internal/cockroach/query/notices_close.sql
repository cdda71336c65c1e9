-- name: notices_close
-- A notice has been acted on: its row goes, and it says how.
WITH finished AS (
    DELETE FROM notices_due
    WHERE home_region = $1::crdb_internal_region AND id = $2::text AND fence = $3::int8 AND NOT parked
    RETURNING id
), closed AS (
    UPDATE notices SET
        status = $4::text, detail = $5::text, processed_at = now(),
        removable_at = greatest(now(), received_at + $6::interval)
    FROM finished
    WHERE notices.home_region = $1::crdb_internal_region AND notices.id = finished.id
    RETURNING notices.home_region
)
SELECT id FROM finished
