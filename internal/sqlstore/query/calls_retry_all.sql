-- name: calls_retry_all
-- As outbox_retry_all.
UPDATE claims AS c SET
    call_due = now() + h.pause,
    call_attempts = CASE WHEN h.reason <> '' THEN coalesce(c.call_attempts, 0) + 1 ELSE c.call_attempts END,
    call_error = CASE WHEN h.reason <> '' THEN h.reason ELSE c.call_error END
{{- if .PlansAreKept }}
FROM unnest(@rows.id::text[], @rows.fence::int8[], @rows.pause::interval[], @rows.reason::text[], array_fill(@home::text, ARRAY[cardinality(@rows.id::text[])])) AS h (id, fence, pause, reason, home_region)
WHERE c.home_region = h.home_region
{{- else }}
FROM @rows AS h (id text, fence int8, pause interval, reason text)
WHERE c.home_region = @home::crdb_internal_region AND c.object_id = ANY (@rows.id::text[])
{{- end }}
  AND c.object_id = h.id AND c.call_fence = h.fence AND c.call_parked IS NULL
