-- name: renew
-- One heartbeat for all claims of a home.
UPDATE claims AS c SET lease_until = l.lease_until, step = @step::uuid
FROM unnest(@leases_tenant_id::text[], @leases_idem_key::text[], @leases_step::uuid[], @leases_lease_until::timestamptz[])
    AS l (tenant_id, idem_key, step, lease_until)
WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = l.tenant_id AND c.idem_key = l.idem_key AND c.step = l.step
  AND l.lease_until BETWEEN '-infinity' AND 'infinity' -- always: see find
RETURNING c.tenant_id, c.idem_key
