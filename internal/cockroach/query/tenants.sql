-- name: tenants
SELECT {{ .Tenant }} FROM tenants AS t WHERE t.id > $1::text ORDER BY t.id LIMIT $2::int8
