-- name: ledger_ghosts
-- One page of the ghosts of a provider in a region's books.
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM ledger AS l
WHERE l.home_region = @home::crdb_internal_region AND l.provider = @provider::text AND l.kind = 'ghost' AND l.id > @after::text
ORDER BY l.home_region, l.provider, l.id
LIMIT @limit::int8
