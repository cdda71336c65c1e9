-- name: notices_close
-- Notices that end alike have been acted on: their rows go, and they say how. Those that
-- somebody else has taken since are left. The ids of those that were closed are returned.
-- The rows are found as expiries_finish finds them.
WITH finished AS (
    DELETE FROM notices_due AS o
    USING (
        SELECT r.id, r.fence, @home::crdb_internal_region AS home_region
        FROM unnest(@rows_id::text[], @rows_fence::int8[]) AS r (id, fence)
        OFFSET 0
    ) AS h
    WHERE o.home_region = h.home_region AND o.id = h.id AND o.fence = h.fence AND o.due IS NOT NULL
    RETURNING o.id
), closed AS (
    UPDATE notices AS n SET
        status = @status::text, detail = @detail::text, processed_at = now(),
        removable_at = greatest(now(), n.received_at + @keep_for::interval)
    FROM (SELECT id, @home::crdb_internal_region AS home_region FROM finished OFFSET 0) AS f
    WHERE n.home_region = f.home_region AND n.id = f.id
    RETURNING n.home_region
)
SELECT id FROM finished
