-- name: ledger_balances
-- Sums every transaction of a region, and what those have left behind that are in segments.
SELECT e.account, e.currency, sum(e.debits)::int8, sum(e.credits)::int8, sum(e.transactions)::int8
FROM (
    SELECT debit_account AS account, currency, debit_amount AS debits, 0::int8 AS credits, 1::int8 AS transactions
    FROM ledger WHERE home_region = @home::crdb_internal_region
    UNION ALL
    SELECT credit_account, currency, 0::int8, -credit_amount, 1::int8
    FROM ledger WHERE home_region = @home::crdb_internal_region
    UNION ALL
    SELECT account, currency, debits, credits, transactions
    FROM ledger_carried WHERE home_region = @home::crdb_internal_region
) AS e
WHERE (e.account, e.currency) > (@account::text, @currency::text)
GROUP BY e.account, e.currency
ORDER BY e.account, e.currency
LIMIT @limit::int8
