-- name: api_keys_end
-- Ends every key of a tenant but one, after a time in which merchants change over.
UPDATE api_keys SET expires_at = now() + @after::interval
WHERE tenant_id = @tenant_id::text AND hash <> @hash::bytea AND (expires_at IS NULL OR expires_at > now() + @after::interval)
