-- name: ledger_reversals_at
-- What takes a transaction back, in the books of one region.
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.reverses = @id::text AND l.reverses <> ''
