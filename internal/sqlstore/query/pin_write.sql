-- name: pin_write
-- Confirms an old pin, or gives it to a new home, and brings it to the registrar
-- if it still lay at the previous one. Only if it is the pin that was read; and
-- only to a region that takes new homes, if the key is to have a new one.
UPDATE pins AS p SET registrar = t.registrar, home_region = @new_home::crdb_internal_region, created_at = @created_at::timestamptz
FROM tenants AS t
WHERE t.id = @tenant_id::text
  AND p.registrar = @registrar::crdb_internal_region AND p.tenant_id = @tenant_id::text AND p.idem_key = @idem_key::text AND p.created_at = @old_created_at::timestamptz
  AND (NOT @taken::bool OR EXISTS (SELECT 1 FROM regions AS r WHERE r.name = @new_home::crdb_internal_region AND r.status = 0))
RETURNING p.created_at
