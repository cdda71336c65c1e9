-- name: calls_finish_all
-- As outbox_finish_all.
UPDATE claims AS c SET {{ .NoCall }}
{{- if .PlansAreKept }}
FROM unnest(@rows.id::text[], @rows.fence::int8[], array_fill(@home::text, ARRAY[cardinality(@rows.id::text[])])) AS h (id, fence, home_region)
WHERE c.home_region = h.home_region
{{- else }}
FROM @rows AS h (id text, fence int8)
WHERE c.home_region = @home::crdb_internal_region AND c.object_id = ANY (@rows.id::text[])
{{- end }}
  AND c.object_id = h.id AND c.call_fence = h.fence AND c.call_parked IS NULL
