-- name: calls_take
-- As expiries_take.
WITH ready AS (
    SELECT tenant_id, idem_key, call_due AS was
    FROM claims
    WHERE home_region = @home::crdb_internal_region AND call_due IS NOT NULL AND call_due <= now()
    ORDER BY home_region, call_due, object_id
    LIMIT @limit::int8
    FOR UPDATE SKIP LOCKED
)
UPDATE claims AS c SET call_fence = c.call_fence + 1, call_due = now() + @lease::interval
FROM ready
WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = ready.tenant_id AND c.idem_key = ready.idem_key
RETURNING ready.was, c.object_id, 'provider_call', c.tenant_id, c.idem_key, c.operation, c.call_payload, c.call_trace,
          c.call_created, coalesce(c.call_due, c.call_parked), c.call_fence, coalesce(c.call_attempts, 0), coalesce(c.call_error, ''), c.call_parked IS NOT NULL
