-- name: witnesses
-- The next witnesses behind a key.
SELECT tenant_id, idem_key, state
FROM witnesses
WHERE (tenant_id, idem_key) > (@tenant_id::text, @idem_key::text)
ORDER BY tenant_id, idem_key
LIMIT @limit::int8
