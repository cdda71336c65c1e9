-- name: {{ .Queue }}_finish
DELETE FROM {{ .Queue }}
WHERE home_region = @home::crdb_internal_region AND id = @id::text AND fence = @fence::int8 AND NOT parked
RETURNING fence
