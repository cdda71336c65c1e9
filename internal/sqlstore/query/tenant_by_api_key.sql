-- name: tenant_by_api_key
SELECT {{ .Tenant }}
FROM api_keys AS k JOIN tenants AS t ON t.id = k.tenant_id
WHERE k.hash = @hash::bytea AND (k.expires_at IS NULL OR now() < k.expires_at)
