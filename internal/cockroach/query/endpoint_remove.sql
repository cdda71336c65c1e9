-- name: endpoint_remove
DELETE FROM endpoints WHERE tenant_id = $1::text
