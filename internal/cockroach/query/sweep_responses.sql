-- name: sweep_responses
DELETE FROM responses AS r
USING (
    SELECT home_region, tenant_id, object_id FROM responses
    WHERE removable_at <= now() ORDER BY removable_at LIMIT @limit::int8
) AS g
WHERE r.home_region = g.home_region AND r.tenant_id = g.tenant_id AND r.object_id = g.object_id
