-- name: {{ .Queue }}_waiting
-- What is due first, for people: nothing is taken.
{{- if .InOrder }}
(
{{- end }}
SELECT o.due, {{ .Message }}
FROM {{ .Queue }} AS o
WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked
ORDER BY o.home_region, o.due, o.id
LIMIT @limit::int8
{{- if .InOrder }}
)
UNION ALL
(
SELECT l.due, {{ .LeftMessage }}
FROM events_left AS l
WHERE l.home_region = @home::crdb_internal_region
ORDER BY l.due, l.id
LIMIT @limit::int8
)
ORDER BY 1, 2
LIMIT @limit::int8
{{- end }}
