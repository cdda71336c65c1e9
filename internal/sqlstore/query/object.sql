-- name: object
-- One claim by the id of its object, with authority.
SELECT now(), c.idem_key, {{ .Claim }}
FROM (SELECT 1) AS one
LEFT JOIN claims AS c
    ON c.home_region = @home::crdb_internal_region AND c.tenant_id = @tenant_id::text AND c.object_id = @object_id::text
