-- name: {{ .Queue }}_unpark
UPDATE {{ .Queue }} SET parked = false, attempts = 0, due = now()
WHERE home_region = $1::crdb_internal_region AND id = $2::text AND parked
RETURNING fence
