-- name: settle
-- Attempts ended for good, or with "not now", or released claims are closed, each of a
-- key of its own: the claims with their responses and without their calls, the
-- bookings, the events, when a claim closes by itself, whose the object was if no money
-- moved, and the audit, in one statement, one round trip. It changes nothing of a claim that
-- is not still the one that the holder has. A business event that is booked already, or an
-- event of an id that is in events, fails all of it.
WITH said AS MATERIALIZED (
    SELECT v.*
    FROM unnest(
        @claims_n::int4[], @claims_tenant_id::text[], @claims_idem_key::text[], @claims_object_id::text[],
        @claims_fence::int8[], @claims_old_unknowns::int4[], @claims_old_state::int2[],
        @claims_state::int2[], @claims_reason::text[], @claims_unknowns::int4[], @claims_not_founds::int4[],
        @claims_provider_ref::text[], @claims_final::bool[], @claims_emits::bool[], @claims_refusal::bytea[],
        @claims_keep_until::timestamptz[], @claims_stays::interval[], @claims_close_until::timestamptz[], @claims_events_due::interval[],
        @claims_step::uuid[],
        @claims_answer_status::int2[], @claims_answer_header::bytea[], @claims_answer_body::bytea[],
        @claims_answer_blob::text[], @claims_answer_replay_for::int8[], @claims_attempt_id::uuid[], @claims_attempt_event::text[],
        @claims_attempt_detail::text[], @claims_entry_id::uuid[], @claims_entry_event::text[],
        @claims_entry_detail::text[], @claims_entry_region::text[], @claims_entry_node::text[]
    ) AS v (
        n, tenant_id, idem_key, object_id, fence, old_unknowns, old_state, state, reason, unknowns,
        not_founds, provider_ref, final, emits, refusal, keep_until, stays, close_until, events_due, step, answer_status,
        answer_header, answer_body, answer_blob, answer_replay_for, attempt_id, attempt_event, attempt_detail, entry_id,
        entry_event, entry_detail, entry_region, entry_node
    )
    WHERE v.n BETWEEN 0 AND 1000000 -- always: see find
), settled AS (
    UPDATE claims AS c SET
        state = v.state, holder = '', lease_until = now(), reason = v.reason, unknowns = v.unknowns, not_founds = v.not_founds,
        provider_ref = v.provider_ref, settled_at = CASE WHEN v.final THEN now() END,
        refused_at = CASE WHEN v.refusal IS NOT NULL THEN now() END, refusal = v.refusal, interim = NULL,
        removable_at = greatest(v.keep_until, now() + v.stays), step = v.step,
        answer_status = CASE WHEN v.final THEN v.answer_status END,
        answer_header = CASE WHEN v.final THEN v.answer_header END,
        answer_body = CASE WHEN v.final THEN v.answer_body END,
        answer_blob = CASE WHEN v.final THEN v.answer_blob END,
        answer_replay_for = CASE WHEN v.final THEN NULLIF(v.answer_replay_for, 0) END,
        -- The line of audit that begin has left goes into audit with the first settlement.
        begun_noted = CASE WHEN c.begun_id IS NOT NULL THEN coalesce(c.begun_noted, v.step) END,
        events_at = CASE WHEN v.emits THEN greatest(now(), c.events_at + '1 microsecond'::interval) ELSE c.events_at END,
        call_payload = NULL, call_trace = NULL, call_created = NULL, call_due = NULL, call_parked = NULL,
        call_fence = NULL, call_attempts = NULL, call_error = NULL
    FROM said AS v
    WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = v.tenant_id AND c.idem_key = v.idem_key
      AND c.object_id = v.object_id AND c.fence = v.fence AND c.unknowns = v.old_unknowns AND c.state = v.old_state
      -- A released claim must not close or emit events once its key is free: another region
      -- may own the key. close_until is earlier by more than this statement takes.
      AND (v.old_state = 1 OR now() < v.close_until)
    RETURNING v.n, c.tenant_id, c.idem_key, c.object_id, c.operation, c.state, c.reason, c.fence, c.generation, c.events_at, v.events_due,
              v.attempt_id, v.attempt_event, v.attempt_detail, v.entry_id, v.entry_event, v.entry_detail, v.entry_region, v.entry_node,
              CASE WHEN c.begun_noted = v.step THEN c.begun_id END AS begun_id, c.first_use, c.begun_region, c.begun_node
), booked AS (
    INSERT INTO ledger (
        home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount,
        currency, object_id, reverses, provider, provider_ref, created, order_id, metadata)
    SELECT @home::crdb_internal_region, t.id, t.tenant_id, t.kind, now(), t.debit, t.amount, t.credit, -t.amount,
           t.currency, t.object_id, t.reverses, t.provider, t.provider_ref,
           CASE WHEN t.kind = 'charge' THEN coalesce(t.created, now()) END, t.order_id, t.metadata
    FROM settled AS s
    JOIN unnest(
        @postings_n::int4[], @postings_id::text[], @postings_tenant_id::text[], @postings_kind::text[],
        @postings_debit::text[], @postings_credit::text[], @postings_amount::int8[],
        @postings_currency::text[], @postings_object_id::text[], @postings_reverses::text[],
        @postings_provider::text[], @postings_provider_ref::text[], @postings_created::timestamptz[],
        @postings_order_id::text[], @postings_metadata::text[]
    ) AS t (n, id, tenant_id, kind, debit, credit, amount, currency, object_id, reverses, provider, provider_ref, created, order_id, metadata) ON t.n = s.n
    RETURNING ledger.home_region
), emitted AS (
    INSERT INTO events (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, e.id, e.kind, s.tenant_id, s.idem_key, s.operation, e.payload, e.trace_parent,
           s.events_at, now() + s.events_due, 0
    FROM settled AS s
    JOIN unnest(
        @events_n::int4[], @events_id::text[], @events_kind::text[], @events_payload::bytea[],
        @events_trace_parent::text[]
    ) AS e (n, id, kind, payload, trace_parent) ON e.n = s.n
    RETURNING events.home_region
), expiring AS (
    INSERT INTO expiries (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, x.id, x.kind, s.tenant_id, s.idem_key, x.operation, x.payload, x.trace_parent, now(), x.due, 0
    FROM settled AS s
    JOIN unnest(
        @expiries_n::int4[], @expiries_id::text[], @expiries_kind::text[], @expiries_operation::text[], @expiries_payload::bytea[],
        @expiries_trace_parent::text[], @expiries_due::timestamptz[]
    ) AS x (n, id, kind, operation, payload, trace_parent, due) ON x.n = s.n
    ON CONFLICT (home_region, id) DO NOTHING
    RETURNING expiries.home_region
), remembered AS (
    INSERT INTO unpaid (home_region, object_id, tenant_id, operation, state, reason, at, removable_at)
    SELECT @home::crdb_internal_region, r.object_id, r.tenant_id, r.operation, r.state, r.reason, now(), now() + r.remember_for
    FROM (
        -- Each of its own object. CockroachDB knows then that what it looks up is at home.
        SELECT DISTINCT ON (s.object_id) s.object_id, s.tenant_id, s.operation, s.state, s.reason, u.remember_for
        FROM settled AS s
        JOIN unnest(@unpaid_n::int4[], @unpaid_remember_for::interval[]) AS u (n, remember_for) ON u.n = s.n
    ) AS r
    ON CONFLICT (home_region, object_id) DO UPDATE SET
        state = excluded.state, reason = excluded.reason, at = excluded.at, removable_at = excluded.removable_at
    RETURNING unpaid.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail,
        attempt_id, attempt_event, attempt_detail, begun_id, begun_at, begun_region, begun_node, begun_detail)
    SELECT @home::crdb_internal_region, tenant_id, idem_key, now(), entry_id, entry_event, entry_region, entry_node, fence, generation, entry_detail,
           attempt_id, attempt_event, attempt_detail,
           begun_id, CASE WHEN begun_id IS NOT NULL THEN first_use END, CASE WHEN begun_id IS NOT NULL THEN begun_region END,
           CASE WHEN begun_id IS NOT NULL THEN begun_node END, CASE WHEN begun_id IS NOT NULL THEN operation END
    FROM settled
    RETURNING audit.home_region
)
SELECT n, now() FROM settled
