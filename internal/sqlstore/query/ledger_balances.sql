-- name: ledger_balances
-- Sums every transaction of a region. Nothing is kept that could be wrong.
SELECT e.account, e.currency, sum(e.debit)::int8, sum(e.credit)::int8, count(*)
FROM (
    SELECT debit_account AS account, currency, debit_amount AS debit, 0::int8 AS credit
    FROM ledger WHERE home_region = @home::crdb_internal_region
    UNION ALL
    SELECT credit_account, currency, 0::int8, -credit_amount
    FROM ledger WHERE home_region = @home::crdb_internal_region
) AS e
WHERE (e.account, e.currency) > (@account::text, @currency::text)
GROUP BY e.account, e.currency
ORDER BY e.account, e.currency
LIMIT @limit::int8
