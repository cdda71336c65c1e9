-- name: ledger_ghosts
-- One page of the ghosts of a provider in a region's books.
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.provider = @provider::text AND l.kind = 'ghost' AND l.id > @after::text
ORDER BY l.home_region, l.provider, l.id
LIMIT @limit::int8
