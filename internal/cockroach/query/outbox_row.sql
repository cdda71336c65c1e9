-- name: {{ .Queue }}_row
SELECT fence FROM {{ .Queue }} WHERE home_region = $1::crdb_internal_region AND id = $2::text
