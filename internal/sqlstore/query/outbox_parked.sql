-- name: {{ .Queue }}_parked
SELECT o.due, {{ .Message }}
FROM {{ .Queue }} AS o
WHERE o.home_region = @home::crdb_internal_region AND o.parked AND o.id > @after::text
ORDER BY o.home_region, o.id
LIMIT @limit::int8
