-- name: ledger_named
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.id = ANY (@ids::text[])
