-- name: registrar_forget
-- Once the last pin at a tenant's previous registrar is gone, new keys need not
-- be looked for there. Not at once after the move: a pinning statement that was
-- under way then may be about to leave one.
UPDATE tenants AS t SET previous_registrar = NULL
WHERE t.previous_registrar = @home::crdb_internal_region AND t.registrar_moved_at <= now() - @rest::interval
  AND NOT EXISTS (SELECT 1 FROM pins AS p WHERE p.registrar = @home::crdb_internal_region AND p.tenant_id = t.id)
