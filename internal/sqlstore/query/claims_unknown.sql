-- name: claims_unknown
-- Claims of a region whose outcome is unknown, oldest first. Each has its call: of those,
-- the first that are due are looked at, so that an outage of the provider does not make
-- this a reading of all that it left.
SELECT c.tenant_id, c.idem_key, c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal, c.interim, c.canceled_at, c.reverses
FROM (
    SELECT o.tenant_id, o.idem_key
    FROM claims AS o
    WHERE o.home_region = @home::crdb_internal_region AND o.call_due IS NOT NULL
    ORDER BY o.home_region, o.call_due, o.object_id
    LIMIT @among::int8
) AS open
JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = open.tenant_id AND c.idem_key = open.idem_key
WHERE c.state = 1 AND c.unknowns > 0
ORDER BY c.first_use, c.object_id
LIMIT @limit::int8
