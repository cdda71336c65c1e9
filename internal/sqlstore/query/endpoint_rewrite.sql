-- name: endpoint_rewrite
UPDATE endpoints SET secrets = @secrets::text[] WHERE tenant_id = @tenant_id::text AND secrets = @old_secrets::text[]
