-- name: ledger_transactions
-- One page of a region's books, in the order in which they were written.
SELECT {{ .Transaction }}
FROM ledger AS l
WHERE l.home_region = $1::crdb_internal_region AND (l.at, l.id) > ($2::timestamptz, $3::text)
  AND l.at < coalesce($4::timestamptz, 'infinity'::timestamptz)
ORDER BY l.home_region, l.at, l.id
LIMIT $5::int8
