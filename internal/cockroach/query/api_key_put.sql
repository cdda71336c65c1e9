-- name: api_key_put
-- Gives a key to a tenant. It fails to when the key is another's.
INSERT INTO api_keys (hash, tenant_id, created_at)
VALUES ($1::bytea, $2::text, now())
ON CONFLICT (hash) DO UPDATE SET expires_at = NULL WHERE api_keys.tenant_id = excluded.tenant_id
RETURNING tenant_id
