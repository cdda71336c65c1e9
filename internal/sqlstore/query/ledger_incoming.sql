-- name: ledger_incoming
-- What a movement that came in is booked as, in the books of every region.
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM regions AS g
JOIN ledger AS l ON l.home_region = g.name AND l.provider = @provider::text AND l.provider_ref = @provider_ref::text
    AND l.kind IN ('charge', 'ghost') AND l.provider_ref <> ''
