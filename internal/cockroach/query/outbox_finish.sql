-- name: {{ .Queue }}_finish
DELETE FROM {{ .Queue }}
WHERE home_region = $1::crdb_internal_region AND id = $2::text AND fence = $3::int8 AND NOT parked
RETURNING fence
