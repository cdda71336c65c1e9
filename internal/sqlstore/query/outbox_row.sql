-- name: {{ .Queue }}_row
SELECT fence FROM {{ .Queue }} WHERE home_region = @home::crdb_internal_region AND id = @id::text
