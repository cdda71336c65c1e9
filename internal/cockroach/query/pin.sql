-- name: pin
-- Fixes the home of an opaque key, in the partition of the tenant's registrar as
-- the same snapshot knows it. A plain INSERT: where the key has a pin it fails
-- with 23505 after one round trip, and ON CONFLICT would read first and take two.
-- Nothing is inserted either while the previous registrar still holds the pin, nor
-- for a region that takes no new homes, whatever the caller remembers of it: both
-- tables are GLOBAL, so that looking costs no trip.
INSERT INTO pins (registrar, tenant_id, idem_key, home_region, created_at)
SELECT t.registrar, t.id, $2::text, $3::crdb_internal_region, now()
FROM tenants AS t
WHERE t.id = $1::text
  AND EXISTS (SELECT 1 FROM regions AS r WHERE r.name = $3::crdb_internal_region AND r.status = 0)
  AND NOT EXISTS (
      SELECT 1 FROM pins AS p
      WHERE p.registrar = t.previous_registrar AND p.tenant_id = t.id AND p.idem_key = $2::text)
RETURNING created_at
