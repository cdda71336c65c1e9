-- name: tenants
SELECT t.id, t.name, t.registrar, t.previous_registrar, t.registrar_moved_at, t.rate_per_second, t.burst, t.card_numbers, t.routes FROM tenants AS t WHERE t.id > @after::text ORDER BY t.id LIMIT @limit::int8
