-- name: ledger_ghost_refund
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = $1::crdb_internal_region AND l.object_id = $2::text AND l.kind = 'ghost_refund'
ORDER BY l.id
LIMIT 1
