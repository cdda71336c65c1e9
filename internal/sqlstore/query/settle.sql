-- name: settle
-- Attempts ended for good, or with "not now", or released claims are closed, each of a
-- key of its own: the claims with their responses and without their calls, the
-- bookings, the events, when a claim closes by itself, whose the object was if no money
-- moved, and the audit, in one statement, one round trip. It changes nothing of a claim that
-- is not still the one that the holder has. A business event that is booked already, or an
-- event of an id that is in events, fails all of it.
WITH said AS MATERIALIZED (
    SELECT @home::crdb_internal_region AS home_region, v.*
    FROM @claims AS v (
        n int4, tenant_id text, idem_key text, object_id text, fence int8, old_unknowns int4, old_state int2,
        state int2, reason text, unknowns int4, not_founds int4, provider_ref text, final bool, emits bool, refusal bytea,
        keep_until timestamptz, close_until timestamptz, step uuid,
        answer_status int2, answer_header bytea, answer_body bytea, answer_blob text,
        attempt_id uuid, attempt_event text, attempt_detail text,
        entry_id uuid, entry_event text, entry_detail text, entry_region text, entry_node text)
), settled AS (
    UPDATE claims AS c SET
        state = v.state, holder = '', reason = v.reason, unknowns = v.unknowns, not_founds = v.not_founds,
        provider_ref = v.provider_ref, settled_at = CASE WHEN v.final THEN now() END,
        refused_at = CASE WHEN v.refusal IS NOT NULL THEN now() END, refusal = v.refusal, interim = NULL,
        removable_at = greatest(v.keep_until, now() + @pin_life::interval), step = v.step,
        answer_status = CASE WHEN v.final THEN v.answer_status END,
        answer_header = CASE WHEN v.final THEN v.answer_header END,
        answer_body = CASE WHEN v.final THEN v.answer_body END,
        answer_blob = CASE WHEN v.final THEN v.answer_blob END,
        -- The line of audit that begin has left goes into audit with the first settlement.
        begun_noted = CASE WHEN c.begun_id IS NOT NULL THEN coalesce(c.begun_noted, v.step) END,
        events_at = CASE WHEN v.emits THEN greatest(now(), c.events_at + '1 microsecond'::interval) ELSE c.events_at END,
        {{ .NoCall }}
    FROM said AS v
    WHERE c.home_region = {{ if .PlansAreKept }}v.home_region{{ else }}@home::crdb_internal_region{{ end }} AND c.tenant_id = v.tenant_id AND c.idem_key = v.idem_key
      AND c.object_id = v.object_id AND c.fence = v.fence AND c.unknowns = v.old_unknowns AND c.state = v.old_state
      -- A released claim must not close or emit events once its key is free: another region
      -- may own the key. close_until is earlier by more than this statement takes.
      AND (v.old_state = 1 OR now() < v.close_until)
    RETURNING v.n, c.tenant_id, c.idem_key, c.object_id, c.operation, c.state, c.reason, c.fence, c.generation, c.lease_until, c.events_at,
              v.attempt_id, v.attempt_event, v.attempt_detail, v.entry_id, v.entry_event, v.entry_detail, v.entry_region, v.entry_node,
              CASE WHEN c.begun_noted = v.step THEN c.begun_id END AS begun_id, c.first_use, c.begun_region, c.begun_node
-- if @postings
), booked AS (
    INSERT INTO ledger (
        home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount,
        currency, object_id, reverses, provider, provider_ref)
    SELECT @home::crdb_internal_region, t.id, t.tenant_id, t.kind, now(), t.debit, t.amount, t.credit, -t.amount,
           t.currency, t.object_id, t.reverses, t.provider, t.provider_ref
    FROM settled AS s
    JOIN @postings AS t (
        n int4, id text, tenant_id text, kind text, debit text, credit text, amount int8,
        currency text, object_id text, reverses text, provider text, provider_ref text) ON t.n = s.n
    RETURNING ledger.home_region
-- end
-- if @events
), emitted AS (
    INSERT INTO events (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, e.id, e.kind, s.tenant_id, s.idem_key, s.operation, e.payload, e.trace_parent,
           s.events_at, now(), 0
    FROM settled AS s
    JOIN @events AS e (n int4, id text, kind text, payload bytea, trace_parent text) ON e.n = s.n
    RETURNING events.home_region
-- end
-- if @expiries
), expiring AS (
    INSERT INTO expiries (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, s.object_id, x.kind, s.tenant_id, s.idem_key, x.operation, x.payload, x.trace_parent, now(), x.due, 0
    FROM settled AS s
    JOIN @expiries AS x (n int4, kind text, operation text, payload bytea, trace_parent text, due timestamptz) ON x.n = s.n
    ON CONFLICT (home_region, id) DO NOTHING
    RETURNING expiries.home_region
-- end
-- if @unpaid
), remembered AS (
    INSERT INTO unpaid (home_region, object_id, tenant_id, operation, state, reason, at, removable_at)
    SELECT @home::crdb_internal_region, s.object_id, s.tenant_id, s.operation, s.state, s.reason, now(), now() + u.remember_for
    FROM settled AS s
    JOIN @unpaid AS u (n int4, remember_for interval) ON u.n = s.n
    ON CONFLICT (home_region, object_id) DO UPDATE SET
        state = excluded.state, reason = excluded.reason, at = excluded.at, removable_at = excluded.removable_at
    RETURNING unpaid.home_region
-- end
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
SELECT n, now(), lease_until FROM settled
