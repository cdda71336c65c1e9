-- name: expiries_park
UPDATE expiries SET due = NULL, last_error = @reason::text
WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text AND id = @id::text AND fence = @fence::int8 AND due IS NOT NULL
