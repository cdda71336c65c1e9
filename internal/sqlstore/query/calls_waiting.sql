-- name: calls_waiting
-- As expiries_waiting.
SELECT c.call_due, c.object_id, 'provider_call', c.tenant_id, c.idem_key, c.operation, c.call_payload, c.call_trace,
       c.call_created, c.call_due, c.call_fence, coalesce(c.call_attempts, 0), coalesce(c.call_error, ''), false
FROM (
    SELECT w.tenant_id, w.idem_key
    FROM claims AS w
    WHERE w.home_region = @home::crdb_internal_region AND w.call_due IS NOT NULL
    ORDER BY w.home_region, w.call_due, w.object_id
    LIMIT @limit::int8
) AS f
JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = f.tenant_id AND c.idem_key = f.idem_key
WHERE c.call_due IS NOT NULL
ORDER BY c.call_due, c.object_id
