-- name: tenant_change
-- Changes what is not NULL of a tenant.
UPDATE tenants SET
    rate_per_second = coalesce(@rate_per_second::float8, rate_per_second), burst = coalesce(@burst::int4, burst),
    card_numbers = coalesce(@card_numbers::text, card_numbers), routes = coalesce(@routes::text, routes)
WHERE id = @tenant_id::text
