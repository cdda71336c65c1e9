-- name: {{ .Queue }}_park
UPDATE {{ .Queue }} SET parked = true, last_error = $4::text
WHERE home_region = $1::crdb_internal_region AND id = $2::text AND fence = $3::int8 AND NOT parked
RETURNING fence
