-- name: {{ .Queue }}_depth
SELECT count(*) FILTER (WHERE NOT parked),
       count(*) FILTER (WHERE NOT parked AND due <= now()),
       count(*) FILTER (WHERE parked),
       min(due) FILTER (WHERE NOT parked AND due <= now())
FROM {{ .Queue }}
WHERE home_region = @home::crdb_internal_region
