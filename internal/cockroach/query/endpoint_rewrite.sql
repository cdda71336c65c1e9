-- name: endpoint_rewrite
UPDATE endpoints SET secrets = $3::text[] WHERE tenant_id = $1::text AND secrets = $2::text[]
