-- name: ledger_ghost_refund
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.object_id = @object_id::text AND l.kind = 'ghost_refund'
ORDER BY l.id
LIMIT 1
