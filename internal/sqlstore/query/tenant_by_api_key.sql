-- name: tenant_by_api_key
SELECT t.id, t.name, t.registrar, t.previous_registrar, t.registrar_moved_at, t.rate_per_second, t.burst, t.card_numbers, t.routes
FROM api_keys AS k JOIN tenants AS t ON t.id = k.tenant_id
WHERE k.hash = @hash::bytea AND (k.expires_at IS NULL OR now() < k.expires_at)
