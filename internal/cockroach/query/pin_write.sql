-- name: pin_write
-- Confirms an old pin, or gives it to a new home, and brings it to the registrar
-- if it still lay at the previous one. Only if it is the pin that was read; and
-- only to a region that takes new homes, if the key is to have a new one.
UPDATE pins AS p SET registrar = t.registrar, home_region = $4::crdb_internal_region, created_at = $5::timestamptz
FROM tenants AS t
WHERE t.id = $1::text
  AND p.registrar = $3::crdb_internal_region AND p.tenant_id = $1::text AND p.idem_key = $2::text AND p.created_at = $6::timestamptz
  AND (NOT $7::bool OR EXISTS (SELECT 1 FROM regions AS r WHERE r.name = $4::crdb_internal_region AND r.status = 0))
RETURNING p.created_at
