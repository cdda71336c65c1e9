-- name: ledger_transactions
-- One page of a region's books, in the order in which they were written.
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND (l.at, l.id) > (@at::timestamptz, @id::text)
  AND l.at < coalesce(@before::timestamptz, 'infinity'::timestamptz)
ORDER BY l.home_region, l.at, l.id
LIMIT @limit::int8
