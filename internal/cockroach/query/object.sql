-- name: object
-- One claim by the id of its object, with authority.
SELECT now(), c.idem_key, {{ .Claim }}
FROM (SELECT 1) AS one
LEFT JOIN claims AS c
    ON c.home_region = @home::crdb_internal_region AND c.tenant_id = @tenant_id::text AND c.object_id = @object_id::text
LEFT JOIN responses AS r
    ON r.home_region = @home::crdb_internal_region AND r.tenant_id = @tenant_id::text AND r.object_id = c.object_id AND c.answered IS DISTINCT FROM c.step
