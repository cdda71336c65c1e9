-- name: {{ .Queue }}_finish_all
-- Removes rows that end together. Those that somebody else has taken since are left.
{{- if .PlansAreKept }}
-- PostgreSQL without statistics believes that a region has few rows, and would read all of
-- them to find some: so it is not to see that they are of one.
{{- end }}
DELETE FROM {{ .Queue }} AS o
{{- if .PlansAreKept }}
USING unnest(@rows.id::text[], @rows.fence::int8[], array_fill(@home::text, ARRAY[cardinality(@rows.id::text[])])) AS h (id, fence, home_region)
WHERE o.home_region = h.home_region
{{- else }}
USING @rows AS h (id text, fence int8)
WHERE o.home_region = @home::crdb_internal_region AND o.id = ANY (@rows.id::text[])
{{- end }}
  AND o.id = h.id AND o.fence = h.fence AND NOT o.parked
