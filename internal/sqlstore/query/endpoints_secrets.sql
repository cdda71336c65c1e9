-- name: endpoints_secrets
SELECT tenant_id, secrets FROM endpoints WHERE tenant_id > @after::text ORDER BY tenant_id LIMIT @limit::int8
