-- name: renew
-- One heartbeat for all claims of a home.
UPDATE claims AS c SET lease_until = l.lease_until, step = @step::uuid
FROM @leases AS l (tenant_id text, idem_key text, step uuid, lease_until timestamptz)
WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = l.tenant_id AND c.idem_key = l.idem_key AND c.step = l.step
RETURNING c.tenant_id, c.idem_key
