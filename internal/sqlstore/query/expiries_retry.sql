-- name: expiries_retry
-- Postpones rows that end together, found as expiries_finish finds them, or parks those without a
-- pause. A reason for a pause counts as a failure.
UPDATE expiries AS o SET
    due = now() + h.pause,
    attempts = o.attempts + CASE WHEN h.reason <> '' AND h.pause IS NOT NULL THEN 1 ELSE 0 END,
    last_error = CASE WHEN h.reason <> '' THEN h.reason ELSE o.last_error END
FROM (
    SELECT r.tenant_id, r.idem_key, r.id, r.fence, r.pause, r.reason, @home::crdb_internal_region AS home_region
    FROM unnest(
        @rows_tenant_id::text[], @rows_idem_key::text[], @rows_id::text[], @rows_fence::int8[],
        @rows_pause::interval[], @rows_reason::text[]
    ) AS r (tenant_id, idem_key, id, fence, pause, reason)
    OFFSET 0
) AS h
WHERE o.home_region = h.home_region AND o.tenant_id = h.tenant_id AND o.idem_key = h.idem_key AND o.id = h.id AND o.fence = h.fence AND o.due IS NOT NULL
