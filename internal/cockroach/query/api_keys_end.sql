-- name: api_keys_end
-- Ends every key of a tenant but one, after a time in which merchants change over.
UPDATE api_keys SET expires_at = now() + $3::interval
WHERE tenant_id = $1::text AND hash <> $2::bytea AND (expires_at IS NULL OR expires_at > now() + $3::interval)
