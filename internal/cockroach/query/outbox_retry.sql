-- name: {{ .Queue }}_retry
-- A reason counts as a failure; without one the row is only postponed.
UPDATE {{ .Queue }} SET
    due = now() + $4::interval,
    attempts = attempts + CASE WHEN $5::text <> '' THEN 1 ELSE 0 END,
    last_error = CASE WHEN $5::text <> '' THEN $5::text ELSE last_error END
WHERE home_region = $1::crdb_internal_region AND id = $2::text AND fence = $3::int8 AND NOT parked
RETURNING fence
