-- name: sweep_audit
DELETE FROM audit AS a
USING (
    SELECT home_region, tenant_id, idem_key, at, id FROM audit
    WHERE at <= now() - @keep_for::interval LIMIT @limit::int8
) AS g
WHERE a.home_region = g.home_region AND a.tenant_id = g.tenant_id AND a.idem_key = g.idem_key AND a.at = g.at AND a.id = g.id
