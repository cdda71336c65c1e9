-- name: ledger_post
-- Books a transaction that no claim's step books. One that is there stays.
INSERT INTO ledger (
    home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount,
    currency, object_id, reverses, provider, provider_ref)
VALUES ($1::crdb_internal_region, $2::text, $3::text, $4::text, now(), $5::text, $7::int8, $6::text, -$7::int8,
        $8::text, $9::text, $10::text, $11::text, $12::text)
ON CONFLICT (home_region, id) DO NOTHING
RETURNING at
