-- name: renewable
-- What a heartbeat needs to know of the claims it renews, which share a home.
SELECT now(), c.tenant_id, c.idem_key, c.state, c.fence, c.holder, c.lease_until, c.held_since, c.step
FROM unnest($2::text[], $3::text[]) AS l (tenant_id, idem_key)
JOIN claims AS c ON c.home_region = $1::crdb_internal_region AND c.tenant_id = l.tenant_id AND c.idem_key = l.idem_key
