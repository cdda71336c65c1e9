-- name: pins_old
-- Pins of a registrar in the order of their keys, from where the last look ended.
-- All of them are looked at, a page at a time: an index by age would be paid for
-- by every new key.
SELECT now(), tenant_id, idem_key, home_region, created_at
FROM pins
WHERE registrar = $1::crdb_internal_region AND (tenant_id, idem_key) > ($2::text, $3::text)
ORDER BY registrar, tenant_id, idem_key
LIMIT $4::int8
