-- name: endpoint
SELECT now(), e.tenant_id, e.url, e.secrets, e.failing_since, e.disabled_at FROM endpoints AS e WHERE e.tenant_id = @tenant_id::text
