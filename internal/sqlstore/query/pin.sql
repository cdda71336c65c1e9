-- name: pin
-- Fixes one home for opaque keys, in the partitions of the tenants' registrars as
-- the same snapshot knows them. A plain INSERT: where a key has a pin it fails with 23505
-- after one round trip, and ON CONFLICT would read first and take two on CockroachDB. The
-- others of a batch are sent again, each alone.
-- Nothing is inserted either while the previous registrar still holds the pin, nor
-- for a region that takes no new homes, whatever the caller remembers of it: both
-- tables are GLOBAL, so that looking costs no trip.
INSERT INTO pins (registrar, tenant_id, idem_key, home_region, created_at)
SELECT t.registrar, t.id, a.idem_key, @home::crdb_internal_region, now()
FROM unnest(@keys_tenant_id::text[], @keys_idem_key::text[]) AS a (tenant_id, idem_key)
JOIN tenants AS t ON t.id = a.tenant_id
WHERE EXISTS (SELECT 1 FROM regions AS r WHERE r.name = @home::crdb_internal_region AND r.status = 0)
  AND NOT EXISTS (
      SELECT 1 FROM pins AS p
      WHERE p.registrar = t.previous_registrar AND p.tenant_id = t.id AND p.idem_key = a.idem_key)
RETURNING tenant_id, idem_key, created_at
