-- name: calls_retry
-- As expiries_retry.
UPDATE claims AS c SET
    call_due = now() + h.pause,
    call_attempts = CASE WHEN h.reason <> '' THEN coalesce(c.call_attempts, 0) + 1 ELSE c.call_attempts END,
    call_error = CASE WHEN h.reason <> '' THEN h.reason ELSE c.call_error END
FROM (
    SELECT r.id, r.fence, r.pause, r.reason, @home::crdb_internal_region AS home_region
    FROM unnest(@rows_id::text[], @rows_fence::int8[], @rows_pause::interval[], @rows_reason::text[]) AS r (id, fence, pause, reason)
    OFFSET 0
) AS h
WHERE c.home_region = h.home_region AND c.object_id = h.id AND c.call_fence = h.fence AND c.call_parked IS NULL
