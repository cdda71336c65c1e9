-- name: {{ .Queue }}_waiting
-- What is due first, for people: nothing is taken.
SELECT o.due, {{ .Message }}
FROM {{ .Queue }} AS o
WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked
ORDER BY o.home_region, o.due, o.id
LIMIT @limit::int8
