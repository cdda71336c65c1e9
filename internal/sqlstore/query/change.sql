-- name: change
-- A claim in flight gets a new holder, or the mark that its merchant gave up its key. Its call's due
-- time stays where none is given.
WITH changed AS (
    UPDATE claims SET
        fence = @fence::int8, holder = @holder::text, lease_until = @lease_until::timestamptz, held_since = @held_since::timestamptz,
        attempts = @attempts::int4, not_founds = @not_founds::int4, canceled_at = @canceled_at::timestamptz, step = @step::uuid,
        call_due = CASE WHEN call_due IS NOT NULL THEN coalesce(@call_due::timestamptz, call_due) END
    WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
      AND step = @old_step::uuid
    RETURNING tenant_id, idem_key, fence, generation
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, tenant_id, idem_key, @at::timestamptz, @entry_id::uuid,
           @entry_event::text, @entry_region::text, @entry_node::text, fence, generation, @entry_detail::text
    FROM changed
    RETURNING audit.home_region
)
SELECT fence FROM changed
