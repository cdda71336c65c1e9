-- name: {{ .Queue }}_take
-- Leases due rows, oldest first; rows that another worker holds are skipped.
{{- if .InOrder }}
-- A row waits until those of its key and kind that came before it are finished or
-- parked. Who holds one of them need not be known for that: it is there until it is
-- finished. One that is finished at this moment lets its next be taken a look later.
{{- end }}
WITH ready AS (
    SELECT o.id, o.due FROM {{ .Queue }} AS o
    WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked AND o.due <= now()
    {{- if .InOrder }}
      AND {{ .First }}
    {{- end }}
    ORDER BY o.home_region, o.due, o.id
    LIMIT @limit::int8
    FOR UPDATE SKIP LOCKED
)
UPDATE {{ .Queue }} AS o SET fence = o.fence + 1, due = now() + @lease::interval
FROM ready
WHERE o.home_region = @home::crdb_internal_region AND o.id = ready.id
RETURNING ready.due, {{ .Message }}
