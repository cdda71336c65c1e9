-- name: tenant_rate
UPDATE tenants SET rate_per_second = @rate_per_second::float8, burst = @burst::int4 WHERE id = @tenant_id::text RETURNING id
