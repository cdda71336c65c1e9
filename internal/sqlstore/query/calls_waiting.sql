-- name: calls_waiting
-- As expiries_waiting.
SELECT c.call_due, c.object_id, 'provider_call', c.tenant_id, c.idem_key, c.operation, c.call_payload, c.call_trace,
          c.call_created, coalesce(c.call_due, c.call_parked), c.call_fence, coalesce(c.call_attempts, 0), coalesce(c.call_error, ''), c.call_parked IS NOT NULL
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL
ORDER BY c.home_region, c.call_due, c.object_id
LIMIT @limit::int8
