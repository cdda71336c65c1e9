-- name: ledger_book
-- Books what a provider has reported, with its events. What is there stays, and has had
-- its events.
WITH booked AS (
    INSERT INTO ledger (
        home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount,
        currency, object_id, reverses, provider, provider_ref, decided_by, decided_why, created, order_id, metadata)
    VALUES (@home::crdb_internal_region, @id::text, @tenant_id::text, @kind::text, now(), @debit::text, @amount::int8, @credit::text, -@amount::int8,
            @currency::text, @object_id::text, @reverses::text, @provider::text, @provider_ref::text, @decided_by::text, @decided_why::text,
            CASE WHEN @kind::text = 'charge' THEN coalesce(@created::timestamptz, now()) END, @order_id::text, @metadata::text)
    ON CONFLICT (home_region, id) DO NOTHING
    RETURNING tenant_id, at
), placed AS (
    -- Behind the events of the claim's own steps, if it is still there.
    UPDATE claims AS c SET events_at = greatest(now(), c.events_at + '1 microsecond'::interval)
    FROM booked AS b
    WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = b.tenant_id
      AND c.idem_key = ANY (@events_idem_key::text[])
    RETURNING c.tenant_id, c.idem_key, c.events_at
), emitted AS (
    INSERT INTO events (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, e.id, e.kind, b.tenant_id, e.idem_key, e.operation, e.payload, e.trace_parent,
           -- Also behind what waits in the line of a claim that was deleted, even if the clock was set back.
           greatest(coalesce(p.events_at, now()), (
               SELECT max(w.created_at) + '1 microsecond'::interval
               FROM events AS w
               WHERE w.home_region = @home::crdb_internal_region AND w.tenant_id = b.tenant_id AND w.idem_key = e.idem_key
           )), now(), 0
    FROM booked AS b
    CROSS JOIN unnest(
        @events_id::text[], @events_kind::text[], @events_idem_key::text[], @events_operation::text[],
        @events_payload::bytea[], @events_trace_parent::text[]
    ) AS e (id, kind, idem_key, operation, payload, trace_parent)
    LEFT JOIN placed AS p ON p.tenant_id = b.tenant_id AND p.idem_key = e.idem_key
    RETURNING events.home_region
)
SELECT at FROM booked
