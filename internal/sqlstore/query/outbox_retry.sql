-- name: {{ .Queue }}_retry
-- A reason counts as a failure; without one the row is only postponed.
UPDATE {{ .Queue }} SET
    due = now() + @pause::interval,
    attempts = attempts + CASE WHEN @reason::text <> '' THEN 1 ELSE 0 END,
    last_error = CASE WHEN @reason::text <> '' THEN @reason::text ELSE last_error END
WHERE home_region = @home::crdb_internal_region AND id = @id::text AND fence = @fence::int8 AND NOT parked
RETURNING fence
