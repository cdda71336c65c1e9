-- name: replica_object
-- The same by the id of its object, which names the home.
SELECT clock_timestamp(), c.idem_key, {{ .Claim }}
FROM claims AS c
{{ .FromReplica }}
WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = @tenant_id::text AND c.object_id = @object_id::text AND c.state IN (2, 3)
