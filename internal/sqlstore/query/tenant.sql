-- name: tenant
SELECT {{ .Tenant }} FROM tenants AS t WHERE t.id = @tenant_id::text
