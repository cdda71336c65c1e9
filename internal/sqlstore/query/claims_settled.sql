-- name: claims_settled
-- One page of a region's claims that have an outcome, in the order of their keys.
SELECT c.tenant_id, c.idem_key, c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal, c.interim, c.canceled_at, c.reverses
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND (c.tenant_id, c.idem_key) > (@tenant_id::text, @idem_key::text) AND c.state <> 1
ORDER BY c.home_region, c.tenant_id, c.idem_key
LIMIT @limit::int8
