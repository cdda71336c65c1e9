-- name: registrar_move
-- Makes another region keep the tenant's pins. Pins at the registrar until now
-- are still looked at, and moved one by one as they are confirmed; while some are
-- left at the one before that, a third would not be found, so only the way back
-- is open. Nor for a minute: a pinning statement that was under way then may be
-- about to leave one. It is the move that was read which is followed by this one,
-- so that a late twin undoes nothing.
UPDATE tenants AS t SET registrar = @registrar::crdb_internal_region, previous_registrar = t.registrar, registrar_moved_at = now()
WHERE t.id = @tenant_id::text AND t.registrar <> @registrar::crdb_internal_region
  AND t.registrar_moved_at IS NOT DISTINCT FROM @moved_at::timestamptz
  AND (t.previous_registrar IS NULL OR t.previous_registrar = @registrar::crdb_internal_region
       OR t.registrar_moved_at <= now() - INTERVAL '1 minute'
          AND NOT EXISTS (SELECT 1 FROM pins AS p WHERE p.registrar = t.previous_registrar AND p.tenant_id = t.id))
RETURNING t.id
