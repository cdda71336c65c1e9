-- name: claim_by_object
-- One claim by the id of its object, whoever's it is, with authority and without its
-- response.
SELECT now(), c.tenant_id, c.idem_key, {{ .Row }}
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND c.object_id = @object_id::text
