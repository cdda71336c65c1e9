-- name: tenant_put
-- A tenant that exists keeps its registrar: only moving it is safe.
INSERT INTO tenants (id, name, registrar, rate_per_second, burst, card_numbers, routes, created_at)
VALUES (@tenant_id::text, @name::text, @registrar::crdb_internal_region, @rate_per_second::float8, @burst::int4, @card_numbers::text, @routes::text, now())
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, rate_per_second = excluded.rate_per_second, burst = excluded.burst,
    card_numbers = excluded.card_numbers, routes = excluded.routes
