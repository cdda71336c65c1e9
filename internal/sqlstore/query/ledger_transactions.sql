-- name: ledger_transactions
-- One page of a region's books, in the order in which they were written.
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND (l.at, l.id) > (@at::timestamptz, @id::text)
  AND l.at < coalesce(@before::timestamptz, 'infinity'::timestamptz)
ORDER BY l.home_region, l.at, l.id
LIMIT @limit::int8
