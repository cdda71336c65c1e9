-- name: ledger_transaction
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = $1::crdb_internal_region AND l.id = $2::text
