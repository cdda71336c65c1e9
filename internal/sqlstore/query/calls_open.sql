-- name: calls_open
-- One page of a region's provider calls, whether they are due, held or parked. Calls are
-- few beside claims: all of their index entries are read, and not the claims' in the order
-- of their objects.
WITH calls AS MATERIALIZED (
    SELECT c.object_id, c.tenant_id, c.idem_key FROM claims AS c
    WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL
    UNION ALL
    SELECT c.object_id, c.tenant_id, c.idem_key FROM claims AS c
    WHERE c.home_region = @home::crdb_internal_region AND c.call_parked IS NOT NULL
)
SELECT coalesce(c.call_due, c.call_parked), c.object_id, 'provider_call', c.tenant_id, c.idem_key, c.operation, c.call_payload, c.call_trace,
          c.call_created, coalesce(c.call_due, c.call_parked), c.call_fence, coalesce(c.call_attempts, 0), coalesce(c.call_error, ''), c.call_parked IS NOT NULL
FROM (SELECT object_id, tenant_id, idem_key FROM calls WHERE object_id > @after::text ORDER BY object_id LIMIT @limit::int8) AS o
JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = o.tenant_id AND c.idem_key = o.idem_key
WHERE coalesce(c.call_due, c.call_parked) IS NOT NULL
ORDER BY c.object_id
