-- name: cancel
-- The merchant gave up the key of a claim in flight. Its holder keeps the lease; its call is due at
-- once where the claim waits for its payer, a bank or a capture.
WITH marked AS (
    UPDATE claims SET
        fence = @fence::int8, canceled_at = @canceled_at::timestamptz, step = @step::uuid, lease_until = @lease_until::timestamptz,
        call_due = CASE WHEN @waits::bool AND call_due IS NOT NULL THEN @canceled_at::timestamptz ELSE call_due END
    WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
      AND step = @old_step::uuid
    RETURNING tenant_id, idem_key, fence, generation
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, tenant_id, idem_key, @canceled_at::timestamptz, @entry_id::uuid,
           @entry_event::text, @entry_region::text, @entry_node::text, fence, generation, @entry_detail::text
    FROM marked
    RETURNING audit.home_region
)
SELECT fence FROM marked
