-- name: tenant_put
-- A tenant that exists keeps its registrar: only moving it is safe.
INSERT INTO tenants (id, name, registrar, rate_per_second, burst, card_numbers, created_at)
VALUES ($1::text, $2::text, $3::crdb_internal_region, $4::float8, $5::int4, $6::text, now())
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, rate_per_second = excluded.rate_per_second, burst = excluded.burst,
    card_numbers = excluded.card_numbers
