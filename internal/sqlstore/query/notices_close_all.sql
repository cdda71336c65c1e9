-- name: notices_close_all
-- As notices_close, of notices that end alike. Those that somebody else has taken since
-- are left. PostgreSQL without statistics believes that a region has few rows: see
-- outbox_finish_all.
WITH finished AS (
    DELETE FROM notices_due AS o
{{- if .PlansAreKept }}
    USING unnest(@rows.id::text[], @rows.fence::int8[], array_fill(@home::text, ARRAY[cardinality(@rows.id::text[])])) AS h (id, fence, home_region)
    WHERE o.home_region = h.home_region
{{- else }}
    USING @rows AS h (id text, fence int8)
    WHERE o.home_region = @home::crdb_internal_region AND o.id = ANY (@rows.id::text[])
{{- end }}
      AND o.id = h.id AND o.fence = h.fence AND NOT o.parked
    RETURNING o.home_region, o.id
), closed AS (
    UPDATE notices AS n SET
        status = @status::text, detail = @detail::text, processed_at = now(),
        removable_at = greatest(now(), n.received_at + @keep_for::interval)
    FROM finished AS f
{{- if .PlansAreKept }}
    WHERE n.home_region = f.home_region
{{- else }}
    WHERE n.home_region = @home::crdb_internal_region AND n.id = ANY (@rows.id::text[])
{{- end }}
      AND n.id = f.id
    RETURNING n.home_region
)
SELECT count(*) FROM finished
