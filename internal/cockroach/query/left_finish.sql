-- name: left_finish
-- Removes events that were left with a node and end together. Those that were moved since
-- are somebody else's.
{{- if .PlansAreKept }}
-- As events_finish_all.
{{- end }}
DELETE FROM events_left AS l
{{- if .PlansAreKept }}
USING unnest(@rows.created_at::timestamptz[], @rows.id::text[], array_fill(@home::text, ARRAY[cardinality(@rows.id::text[])])) AS h (created_at, id, home_region)
WHERE l.home_region = h.home_region
{{- else }}
USING @rows AS h (created_at timestamptz, id text)
WHERE l.home_region = @home::crdb_internal_region AND l.created_at = ANY (@rows.created_at::timestamptz[])
{{- end }}
  AND l.created_at = h.created_at AND l.id = h.id
