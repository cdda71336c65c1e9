-- name: tenant_routes
-- Says which provider a tenant's payments go to.
UPDATE tenants SET routes = @routes::text WHERE id = @tenant_id::text
