-- name: endpoints_secrets
SELECT tenant_id, secrets FROM endpoints WHERE tenant_id > $1::text ORDER BY tenant_id LIMIT $2::int8
