-- name: tenant_rate
UPDATE tenants SET rate_per_second = $2::float8, burst = $3::int4 WHERE id = $1::text RETURNING id
