-- name: tenants
SELECT {{ .Tenant }} FROM tenants AS t WHERE t.id > @after::text ORDER BY t.id LIMIT @limit::int8
