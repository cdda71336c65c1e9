-- name: events_waits
-- The key of the latest of a tenant's events whose ids begin alike. It reads all that waits of the
-- tenant, which is little but while a sink is down, and is asked of objects without a claim alone.
SELECT e.idem_key
FROM events AS e
WHERE e.home_region = @home::crdb_internal_region AND e.tenant_id = @tenant_id::text AND left(e.id, char_length(@prefix::text)) = @prefix::text
ORDER BY e.created_at DESC, e.id DESC
LIMIT 1
