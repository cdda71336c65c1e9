-- name: {{ .Queue }}_parked
SELECT o.due, {{ .Message }}
FROM {{ .Queue }} AS o
WHERE o.home_region = $1::crdb_internal_region AND o.parked AND o.id > $2::text
ORDER BY o.home_region, o.id
LIMIT $3::int8
