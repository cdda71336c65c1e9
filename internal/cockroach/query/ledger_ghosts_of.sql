-- name: ledger_ghosts_of
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.object_id = @object_id::text AND l.kind = 'ghost'
ORDER BY l.id
