-- name: {{ .Queue }}_finish_all
-- Removes rows that end together. Those that somebody else has taken since are left.
{{- if .PlansAreKept }}
-- PostgreSQL without statistics believes that a region has few rows, and would read all of
-- them to find some: so it is not to see that they are of one.
{{- end }}
DELETE FROM {{ .Queue }} AS o
{{- if .PlansAreKept }}
USING unnest($2::text[], $3::int8[], array_fill($1::text, ARRAY[cardinality($2::text[])])) AS h (id, fence, home_region)
WHERE o.home_region = h.home_region
{{- else }}
USING unnest($2::text[], $3::int8[]) AS h (id, fence)
WHERE o.home_region = $1::crdb_internal_region AND o.id = ANY ($2::text[])
{{- end }}
  AND o.id = h.id AND o.fence = h.fence AND NOT o.parked
