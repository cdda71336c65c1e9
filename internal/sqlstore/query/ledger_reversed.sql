-- name: ledger_reversed
-- What takes some transactions back, in the books of every region.
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM unnest(@ids::text[]) AS i (id)
CROSS JOIN regions AS g
JOIN ledger AS l ON l.home_region = g.name AND l.reverses = i.id AND l.reverses <> ''
