-- name: calls_orphaned
-- Drops former calls whose claim is gone.
DELETE FROM outbox AS o
WHERE o.home_region = @home::crdb_internal_region
  AND NOT EXISTS (
      SELECT 1 FROM claims AS c
      WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = o.tenant_id AND c.idem_key = o.idem_key)
