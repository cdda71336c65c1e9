-- name: ledger_named
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.id = ANY (@ids::text[])
