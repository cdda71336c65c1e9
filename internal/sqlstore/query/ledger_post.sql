-- name: ledger_post
-- Books a transaction that no claim's step books. One that is there stays.
INSERT INTO ledger (
    home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount,
    currency, object_id, reverses, provider, provider_ref, decided_by, decided_why)
VALUES (@home::crdb_internal_region, @id::text, @tenant_id::text, @kind::text, now(), @debit::text, @amount::int8, @credit::text, -@amount::int8,
        @currency::text, @object_id::text, @reverses::text, @provider::text, @provider_ref::text, @decided_by::text, @decided_why::text)
ON CONFLICT (home_region, id) DO NOTHING
RETURNING at
