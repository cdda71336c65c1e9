-- name: {{ .Queue }}_retry_all
-- As {{ .Queue }}_retry, of rows that end together, found as {{ .Queue }}_finish_all finds them.
UPDATE {{ .Queue }} AS o SET
    due = now() + h.pause,
    attempts = o.attempts + CASE WHEN h.reason <> '' THEN 1 ELSE 0 END,
    last_error = CASE WHEN h.reason <> '' THEN h.reason ELSE o.last_error END
{{- if .PlansAreKept }}
FROM unnest(@rows.id::text[], @rows.fence::int8[], @rows.pause::interval[], @rows.reason::text[], array_fill(@home::text, ARRAY[cardinality(@rows.id::text[])])) AS h (id, fence, pause, reason, home_region)
WHERE o.home_region = h.home_region
{{- else }}
FROM @rows AS h (id text, fence int8, pause interval, reason text)
WHERE o.home_region = @home::crdb_internal_region AND o.id = ANY (@rows.id::text[])
{{- end }}
  AND o.id = h.id AND o.fence = h.fence AND NOT o.parked
