-- name: api_key_put
-- Gives a key to a tenant. It fails to when the key is another's.
INSERT INTO api_keys (hash, tenant_id, created_at)
VALUES (@hash::bytea, @tenant_id::text, now())
ON CONFLICT (hash) DO UPDATE SET expires_at = NULL WHERE api_keys.tenant_id = excluded.tenant_id
RETURNING tenant_id
