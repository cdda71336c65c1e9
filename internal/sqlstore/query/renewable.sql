-- name: renewable
-- What a heartbeat needs to know of the claims it renews, which share a home.
SELECT now(), c.tenant_id, c.idem_key, c.state, c.fence, c.holder, c.lease_until, c.held_since, c.step
FROM @keys AS l (tenant_id text, idem_key text)
JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = l.tenant_id AND c.idem_key = l.idem_key
