-- name: renew
-- One heartbeat for all claims of a home.
UPDATE claims AS c SET lease_until = l.lease_until, step = $6::uuid
FROM unnest($2::text[], $3::text[], $4::uuid[], $5::timestamptz[]) AS l (tenant_id, idem_key, step, lease_until)
WHERE c.home_region = $1::crdb_internal_region AND c.tenant_id = l.tenant_id AND c.idem_key = l.idem_key AND c.step = l.step
RETURNING c.tenant_id, c.idem_key
