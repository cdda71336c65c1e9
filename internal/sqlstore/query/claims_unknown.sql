-- name: claims_unknown
-- Claims of a region whose outcome is unknown, of live tenants or of test tenants, oldest
-- first. Each has its call: of those, the first that are due are looked at, so that an
-- outage of the provider does not make this a reading of all that it left. The index does
-- not have the side of a tenant, so those of the other one are passed, up to a bound.
SELECT c.tenant_id, c.idem_key, c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal, c.interim, c.canceled_at, c.reverses
FROM (
    SELECT n.tenant_id, n.idem_key
    FROM (
        SELECT o.tenant_id, o.idem_key, o.call_due, o.object_id
        FROM claims AS o
        WHERE o.home_region = @home::crdb_internal_region AND o.call_due IS NOT NULL
        ORDER BY o.home_region, o.call_due, o.object_id
        LIMIT @looked::int8
    ) AS n
    WHERE (right(n.tenant_id, char_length(@test::text)) <> @test::text) = @live::bool
    ORDER BY n.call_due, n.object_id
    LIMIT @among::int8
) AS open
JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = open.tenant_id AND c.idem_key = open.idem_key
WHERE c.state = 1 AND c.unknowns > 0
ORDER BY c.first_use, c.object_id
LIMIT @limit::int8
