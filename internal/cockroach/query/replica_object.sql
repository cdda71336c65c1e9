-- name: replica_object
-- The same by the id of its object, which names the home.
SELECT clock_timestamp(), c.idem_key, {{ .Claim }}
FROM claims AS c
LEFT JOIN responses AS r ON r.home_region = c.home_region AND r.tenant_id = c.tenant_id AND r.object_id = c.object_id AND c.answered IS DISTINCT FROM c.step
{{ .FromReplica }}
WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = @tenant_id::text AND c.object_id = @object_id::text AND c.state IN (2, 3)
