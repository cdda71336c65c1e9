-- name: endpoint_remove
DELETE FROM endpoints WHERE tenant_id = @tenant_id::text
