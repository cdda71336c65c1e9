-- name: ping
-- The locks, and the right to write, that recording a charge takes: it fails where the
-- database takes no writes, and waits where a table is locked against them, or one that
-- says who asks and where. It finds no row and writes none, as no tenant has this id.
WITH pinned AS (
    UPDATE pins SET created_at = created_at
    WHERE registrar = @home::crdb_internal_region AND tenant_id = '' AND idem_key = ''
    RETURNING 1
), booked AS (
    INSERT INTO ledger (home_region, id) SELECT home_region, id FROM ledger WHERE false RETURNING 1
), noted AS (
    INSERT INTO audit (home_region, tenant_id, idem_key, at, id)
    SELECT home_region, tenant_id, idem_key, at, id FROM audit WHERE false
    RETURNING 1
)
UPDATE claims SET fence = fence
WHERE home_region = @home::crdb_internal_region AND tenant_id = '' AND idem_key = ''
  AND EXISTS (SELECT 1 FROM api_keys AS k JOIN tenants AS t ON t.id = k.tenant_id WHERE k.hash = ''::bytea)
  AND EXISTS (SELECT 1 FROM regions WHERE name = @home::crdb_internal_region)
