-- name: wait
-- An attempt found that the payer or a bank is to act: the claim stays in flight,
-- nobody's, with an answer for now, and the worker owns it from when the pause is over.
-- What it compares does not hold a second time, as the fence rises.
WITH waiting AS (
    UPDATE claims SET
        holder = '', fence = @fence::int8, reason = @reason::text, not_founds = 0, provider_ref = @provider_ref::text,
        interim = @interim::bytea, lease_until = now() + @pause::interval, step = @step::uuid,
        call_due = CASE WHEN call_due IS NOT NULL THEN now() + @pause::interval END,
        events_at = greatest(now(), events_at + '1 microsecond'::interval)
    WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
      AND object_id = @object_id::text AND fence = @old_fence::int8 AND unknowns = @old_unknowns::int4 AND state = 1
    RETURNING tenant_id, idem_key, operation, lease_until, events_at
), emitted AS (
    INSERT INTO events (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, e.id, e.kind, w.tenant_id, w.idem_key, w.operation, e.payload, e.trace_parent,
           w.events_at, now(), 0
    FROM waiting AS w
    CROSS JOIN @events AS e (n int4, id text, kind text, payload bytea, trace_parent text)
    RETURNING events.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, w.tenant_id, w.idem_key, now(), a.id, a.event, @region::text, @node::text, a.fence, @generation::int4, a.detail
    FROM waiting AS w, (
        VALUES (@first_id::uuid, @first_event::text, @first_detail::text, @old_fence::int8),
               (@second_id::uuid, @second_event::text, @second_detail::text, @fence::int8)
    ) AS a (id, event, detail, fence)
    RETURNING audit.home_region
)
SELECT now(), lease_until FROM waiting
