-- name: pin_read
-- Where a key is pinned, with authority: at the registrar or the previous one; and
-- whether the region that asks to be its home takes new ones.
SELECT now(), t.registrar, p.registrar, p.home_region, p.created_at, q.registrar, q.home_region, q.created_at,
       EXISTS (SELECT 1 FROM regions AS r WHERE r.name = @entry::crdb_internal_region AND r.status = 0)
FROM tenants AS t
LEFT JOIN pins AS p ON p.registrar = t.registrar AND p.tenant_id = t.id AND p.idem_key = @idem_key::text
LEFT JOIN pins AS q ON q.registrar = t.previous_registrar AND q.tenant_id = t.id AND q.idem_key = @idem_key::text
WHERE t.id = @tenant_id::text
