-- name: {{ .Queue }}_retry_all
-- As {{ .Queue }}_retry, of rows that end together, found as {{ .Queue }}_finish_all finds them.
UPDATE {{ .Queue }} AS o SET
    due = now() + h.pause,
    attempts = o.attempts + CASE WHEN h.reason <> '' THEN 1 ELSE 0 END,
    last_error = CASE WHEN h.reason <> '' THEN h.reason ELSE o.last_error END
{{- if .PlansAreKept }}
FROM unnest($2::text[], $3::int8[], $4::interval[], $5::text[], array_fill($1::text, ARRAY[cardinality($2::text[])])) AS h (id, fence, pause, reason, home_region)
WHERE o.home_region = h.home_region
{{- else }}
FROM unnest($2::text[], $3::int8[], $4::interval[], $5::text[]) AS h (id, fence, pause, reason)
WHERE o.home_region = $1::crdb_internal_region AND o.id = ANY ($2::text[])
{{- end }}
  AND o.id = h.id AND o.fence = h.fence AND NOT o.parked
