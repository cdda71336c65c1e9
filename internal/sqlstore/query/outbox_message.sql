-- name: {{ .Queue }}_message
-- One row with authority, whoever holds it.
SELECT o.due, {{ .Message }}
FROM {{ .Queue }} AS o
WHERE o.home_region = @home::crdb_internal_region AND o.id = @id::text
