-- name: calls_finish
-- As expiries_finish.
UPDATE claims AS c SET
    call_payload = NULL, call_trace = NULL, call_created = NULL, call_due = NULL, call_parked = NULL,
    call_fence = NULL, call_attempts = NULL, call_error = NULL
FROM (
    SELECT r.id, r.fence, @home::crdb_internal_region AS home_region
    FROM unnest(@rows_id::text[], @rows_fence::int8[]) AS r (id, fence)
    OFFSET 0
) AS h
WHERE c.home_region = h.home_region AND c.object_id = h.id AND c.call_fence = h.fence AND c.call_parked IS NULL
