-- name: claims_unknown
-- Claims of a region whose outcome is unknown, of live tenants or of test tenants, oldest
-- first. Each has its call: the first that are due are looked at, so that an outage of the
-- provider does not make this a reading of all that it left. Nothing is joined: without
-- statistics, as in a flood, PostgreSQL compared each claim with each call.
SELECT c.tenant_id, c.idem_key, c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal, c.interim, c.canceled_at, c.reverses
FROM (
    SELECT o.tenant_id, o.idem_key, o.step, o.object_id, o.operation, o.fingerprint_version, o.fingerprint, o.state, o.fence, o.holder,
           o.lease_until, o.held_since, o.first_use, o.created, o.receipt, o.generation, o.provider_key,
           o.attempts, o.unknowns, o.not_founds, o.reason, o.provider_ref, o.settled_at, o.refused_at, o.refusal, o.interim, o.canceled_at, o.reverses
    FROM claims AS o
    WHERE o.home_region = @home::crdb_internal_region AND o.call_due IS NOT NULL
    ORDER BY o.home_region, o.call_due, o.object_id
    LIMIT @among::int8
) AS c
WHERE c.state = 1 AND c.unknowns > 0 AND (right(c.tenant_id, char_length(@test::text)) <> @test::text) = @live::bool
ORDER BY c.first_use, c.object_id
LIMIT @limit::int8
