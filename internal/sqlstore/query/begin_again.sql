-- name: begin_again
-- An arrival wins a row that exists: one whose answer was "not now", or one that
-- is past its tombstone. The step compared is that of the row the decision was
-- made on, and a decision is good for a moment only.
WITH won AS (
    UPDATE claims SET
        object_id = @object_id::text, operation = @operation::text, fingerprint_version = @fingerprint_version::int2, fingerprint = @fingerprint::bytea,
        state = 1, fence = @fence::int8, holder = @holder::text,
        lease_until = @lease_until::timestamptz, held_since = @held_since::timestamptz, first_use = @first_use::timestamptz,
        created = @created::timestamptz, receipt = @receipt::text, generation = @generation::int4, provider_key = @provider_key::text,
        attempts = @attempts::int4, unknowns = 0, not_founds = 0, reason = '', provider_ref = @provider_ref::text, reverses = NULLIF(@reverses::text, ''),
        settled_at = NULL, step = @step::uuid, removable_at = NULL,
        answer_status = NULL, answer_header = NULL, answer_body = NULL, answer_blob = NULL, answer_replay_for = NULL,
        interim = NULL, canceled_at = @canceled_at::timestamptz,
        refused_at = CASE WHEN @keep_refusal::bool THEN refused_at END, refusal = CASE WHEN @keep_refusal::bool THEN refusal END,
        call_payload = @message_payload::bytea, call_trace = @message_trace_parent::text, call_created = @message_created_at::timestamptz,
        call_due = @lease_until::timestamptz, call_parked = NULL, call_fence = @message_fence::int8, call_attempts = NULL, call_error = NULL,
        -- A witness may continue a claim that was never settled: its first line of audit stays
        -- until it is.
        begun_id = CASE WHEN begun_noted IS NULL THEN begun_id END, begun_region = CASE WHEN begun_noted IS NULL THEN begun_region END,
        begun_node = CASE WHEN begun_noted IS NULL THEN begun_node END, begun_noted = NULL
    WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
      AND step = @old_step::uuid AND now() < @good_until::timestamptz
    RETURNING tenant_id, idem_key, fence, generation
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, tenant_id, idem_key, @message_created_at::timestamptz, @entry_id::uuid,
           @entry_event::text, @entry_region::text, @entry_node::text, fence, generation, @entry_detail::text
    FROM won
    RETURNING audit.home_region
)
SELECT fence FROM won
