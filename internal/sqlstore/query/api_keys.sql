-- name: api_keys
-- All keys of a tenant, also those that have ended. It reads the table as a whole, which
-- people may: an index for them would cost each write of a key a row more in every region.
SELECT hash, created_at, expires_at, expires_at IS NOT NULL AND expires_at <= now()
FROM api_keys WHERE tenant_id = @tenant_id::text ORDER BY created_at, hash
