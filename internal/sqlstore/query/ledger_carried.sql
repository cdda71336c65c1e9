-- name: ledger_carried
-- One page of what the transactions have left behind that are in segments.
SELECT c.account, c.currency, c.debits, c.credits, c.transactions
FROM ledger_carried AS c
WHERE c.home_region = @home::crdb_internal_region AND (c.account, c.currency) > (@account::text, @currency::text)
ORDER BY c.home_region, c.account, c.currency
LIMIT @limit::int8
