-- name: expiries_unpark
UPDATE expiries SET parked = false, attempts = 0, due = now()
WHERE home_region = @home::crdb_internal_region AND id = @id::text AND parked
