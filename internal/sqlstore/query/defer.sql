-- name: defer
-- An attempt ended without an outcome: the claim stays in flight, nobody's, and
-- the worker owns it from when the pause is over. Either the count of unknowns rises,
-- or the fence: what it compares does not hold a second time. Where the payer or a bank is
-- to act, it has an answer for now. Where another provider is to try, it is a new generation,
-- without the interim answer of the last one, and its holder goes on at once.
WITH deferred AS (
    UPDATE claims SET
        holder = '', fence = @fence::int8, generation = @new_generation::int4, provider_key = @provider_key::text, provider_ref = @provider_ref::text, reason = @reason::text, unknowns = @unknowns::int4, not_founds = @not_founds::int4,
        interim = coalesce(@interim::bytea, CASE WHEN generation = @new_generation::int4 THEN interim END),
        lease_until = now() + @pause::interval, step = @step::uuid,
        call_due = CASE WHEN call_due IS NOT NULL THEN now() + @due_pause::interval END,
        events_at = CASE WHEN cardinality(@events_id::text[]) > 0 THEN greatest(now(), events_at + '1 microsecond'::interval) ELSE events_at END
    WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
      AND object_id = @object_id::text AND fence = @old_fence::int8 AND unknowns = @old_unknowns::int4 AND state = 1
    RETURNING tenant_id, idem_key, operation, events_at
), emitted AS (
    INSERT INTO events (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, e.id, e.kind, d.tenant_id, d.idem_key, d.operation, e.payload, e.trace_parent,
           d.events_at, now() + @events_due::interval, 0
    FROM deferred AS d
    CROSS JOIN unnest(@events_id::text[], @events_kind::text[], @events_payload::bytea[], @events_trace_parent::text[])
        AS e (id, kind, payload, trace_parent)
    RETURNING events.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, d.tenant_id, d.idem_key, now(), a.id, a.event, @region::text, @node::text, a.fence, a.generation, a.detail
    FROM deferred AS d, (
        VALUES (@first_id::uuid, @first_event::text, @first_detail::text, @old_fence::int8, @generation::int4),
               (@second_id::uuid, @second_event::text, @second_detail::text, @fence::int8, @new_generation::int4)
    ) AS a (id, event, detail, fence, generation)
    RETURNING audit.home_region
)
SELECT now() FROM deferred
