-- name: tenant
SELECT {{ .Tenant }} FROM tenants AS t WHERE t.id = $1::text
