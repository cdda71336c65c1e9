-- name: reattach
-- A claim that a restore has lost is begun again as its witness has it, with the provider
-- call in it and a line of audit. Nothing is done where another has been faster.
WITH won AS (
    INSERT INTO claims (
        home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint,
        state, fence, holder, lease_until, held_since, first_use, created, receipt,
        generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, canceled_at, reverses, step,
        call_payload, call_trace, call_created, call_due, call_fence)
    SELECT @home::crdb_internal_region, @tenant_id::text, @idem_key::text, @object_id::text, @operation::text,
           @fingerprint_version::int2, @fingerprint::bytea,
           1, @fence::int8, @holder::text, @lease_until::timestamptz, @held_since::timestamptz,
           @first_use::timestamptz, @created::timestamptz, @receipt::text,
           @generation::int4, @provider_key::text, @attempts::int4, 0, 0, '', '', @canceled_at::timestamptz, NULLIF(@reverses::text, ''), @step::uuid,
           @message_payload::bytea, @message_trace_parent::text, @held_since::timestamptz, @lease_until::timestamptz, @message_fence::int8
    WHERE now() < @good_until::timestamptz
    ON CONFLICT (home_region, tenant_id, idem_key) DO NOTHING
    RETURNING tenant_id, idem_key, fence, generation
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, tenant_id, idem_key, @held_since::timestamptz, @entry_id::uuid,
           @entry_event::text, @entry_region::text, @entry_node::text, fence, generation, @entry_detail::text
    FROM won
    RETURNING audit.home_region
)
SELECT fence FROM won
