-- name: left_move
-- Moves events that were left with a node to the queue, where they are postponed or parked,
-- as if they had been taken there.
WITH gone AS (
    DELETE FROM events_left AS l
{{- if .PlansAreKept }}
    USING unnest(@rows.created_at::timestamptz[], @rows.id::text[], @rows.pause::interval[], @rows.reason::text[], @rows.parked::bool[],
        array_fill(@home::text, ARRAY[cardinality(@rows.id::text[])])) AS h (created_at, id, pause, reason, parked, home_region)
    WHERE l.home_region = h.home_region
{{- else }}
    USING @rows AS h (created_at timestamptz, id text, pause interval, reason text, parked bool)
    WHERE l.home_region = @home::crdb_internal_region AND l.created_at = ANY (@rows.created_at::timestamptz[])
{{- end }}
      AND l.created_at = h.created_at AND l.id = h.id
    RETURNING {{ .Left }}, l.due, h.pause, h.reason, h.parked
)
INSERT INTO events (home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence, attempts, last_error, parked)
SELECT @home::crdb_internal_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at,
       CASE WHEN parked THEN due ELSE now() + pause END, 1, CASE WHEN reason <> '' AND NOT parked THEN 1 ELSE 0 END, reason, parked
FROM gone
ON CONFLICT DO NOTHING
