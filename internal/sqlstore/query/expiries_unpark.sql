-- name: expiries_unpark
UPDATE expiries SET due = now(), attempts = 0
WHERE home_region = @home::crdb_internal_region AND id = @id::text AND due IS NULL
