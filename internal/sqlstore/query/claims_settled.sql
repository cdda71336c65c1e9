-- name: claims_settled
-- One page of a region's claims that have an outcome, in the order of their keys.
SELECT now(), c.tenant_id, c.idem_key, {{ .Row }}
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND (c.tenant_id, c.idem_key) > (@tenant_id::text, @idem_key::text) AND c.state <> 1
ORDER BY c.home_region, c.tenant_id, c.idem_key
LIMIT @limit::int8
