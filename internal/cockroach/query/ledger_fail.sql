-- name: ledger_fail
-- Books that a transaction has failed, with the events that tell of it. One that is
-- there stays, and has had its events.
WITH booked AS (
    INSERT INTO ledger (
        home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount,
        currency, object_id, reverses, provider, provider_ref)
    VALUES ($1::crdb_internal_region, $2::text, $3::text, $4::text, now(), $5::text, $7::int8, $6::text, -$7::int8,
            $8::text, $9::text, $10::text, $11::text, $12::text)
    ON CONFLICT (home_region, id) DO NOTHING
    RETURNING tenant_id, at
), told AS (
    INSERT INTO events (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT $1::crdb_internal_region, e.id, e.kind, b.tenant_id, e.idem_key, e.operation, e.payload, e.trace_parent, now(), now(), 0
    FROM booked AS b, unnest($13::text[], $14::text[], $15::text[], $16::text[], $17::bytea[], $18::text[])
        AS e (id, kind, idem_key, operation, payload, trace_parent)
    RETURNING events.home_region
)
SELECT at FROM booked
