-- name: ledger_about
-- What is about an object and not its own booking, in the books of one region. The last
-- condition is that of the index.
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.object_id = @object_id::text
  AND l.kind NOT IN ('charge', 'transfer', 'refund')
ORDER BY l.id
