-- name: ledger_about
-- What is about some objects and not their own booking, in the books of one region. The last
-- condition is that of the index.
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.object_id = ANY (@objects::text[])
  AND l.kind NOT IN ('charge', 'transfer', 'refund')
ORDER BY l.id
