-- name: take_over
-- A lapsed claim gets a new holder; its call waits for the new lease.
WITH taken AS (
    UPDATE claims SET
        fence = @fence::int8, holder = @holder::text, lease_until = @lease_until::timestamptz, held_since = @held_since::timestamptz,
        attempts = @attempts::int4, not_founds = @not_founds::int4, step = @step::uuid,
        call_due = CASE WHEN call_due IS NOT NULL THEN @lease_until::timestamptz END
    WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
      AND step = @old_step::uuid
    RETURNING tenant_id, idem_key, fence, generation
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, tenant_id, idem_key, @held_since::timestamptz, @entry_id::uuid,
           @entry_event::text, @entry_region::text, @entry_node::text, fence, generation, @entry_detail::text
    FROM taken
    RETURNING audit.home_region
)
SELECT fence FROM taken
