-- name: ledger_transactions
-- One page of a region's books, in the order in which they were written. Its rows are found by what
-- the index has.
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM (
    SELECT p.id
    FROM ledger AS p
    WHERE p.home_region = @home::crdb_internal_region AND (p.at, p.id) > (@at::timestamptz, @id::text)
      AND p.at < coalesce(@before::timestamptz, 'infinity'::timestamptz)
    ORDER BY p.home_region, p.at, p.id
    LIMIT @limit::int8
) AS f
JOIN ledger AS l ON l.home_region = @home::crdb_internal_region AND l.id = f.id
ORDER BY l.at, l.id
