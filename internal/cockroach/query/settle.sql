-- name: settle
-- Attempts ended for good, or with "not now", or released claims are closed, each of a
-- key of its own: the claims with their responses, the end of their outbox rows, the
-- bookings, what the world must be told, when a claim closes by itself, whose the object
-- was if no money moved, and the audit, in one statement, one round trip. It changes
-- nothing of a claim that is not still the one that the holder was given. A business
-- event that is booked already, or an event that waits already, fails all of it.
WITH said AS MATERIALIZED (
    SELECT $1::crdb_internal_region AS home_region, v.n, v.tenant_id, v.idem_key, v.object_id, v.fence, v.old_unknowns, v.old_state,
           v.state, v.reason, v.unknowns, v.not_founds, v.provider_ref, v.final, v.refusal, v.keep_until, v.free_at, v.step,
           v.answer_status, v.answer_header, v.answer_body, v.answer_blob, v.unpaid,
           v.expiry_due, v.expiry_operation, v.expiry_payload, v.expiry_trace
    FROM unnest(
            $2::int4[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::int4[], $8::int2[],
            $9::int2[], $10::text[], $11::int4[], $12::int4[], $13::text[], $14::bool[], $15::bytea[], $16::timestamptz[], $17::timestamptz[], $18::uuid[],
            $19::int2[], $20::bytea[], $21::bytea[], $22::text[], $23::bool[],
            $24::timestamptz[], $25::text[], $26::bytea[], $27::text[]
         ) AS v (n, tenant_id, idem_key, object_id, fence, old_unknowns, old_state,
                 state, reason, unknowns, not_founds, provider_ref, final, refusal, keep_until, free_at, step,
                 answer_status, answer_header, answer_body, answer_blob, unpaid,
                 expiry_due, expiry_operation, expiry_payload, expiry_trace)
), settled AS (
    UPDATE claims AS c SET
        state = v.state, holder = '', reason = v.reason, unknowns = v.unknowns, not_founds = v.not_founds,
        provider_ref = v.provider_ref, settled_at = CASE WHEN v.final THEN now() END,
        refused_at = CASE WHEN v.refusal IS NOT NULL THEN now() END, refusal = v.refusal,
        removable_at = greatest(v.keep_until, now() + $28::interval), step = v.step,
        answered = CASE WHEN v.final THEN v.step END,
        answer_status = CASE WHEN v.final THEN v.answer_status END,
        answer_header = CASE WHEN v.final THEN v.answer_header END,
        answer_body = CASE WHEN v.final THEN v.answer_body END,
        answer_blob = CASE WHEN v.final THEN v.answer_blob END
    FROM said AS v
    WHERE c.home_region = {{ if .PlansAreKept }}v.home_region{{ else }}$1::crdb_internal_region{{ end }} AND c.tenant_id = v.tenant_id AND c.idem_key = v.idem_key
      AND c.object_id = v.object_id AND c.fence = v.fence AND c.unknowns = v.old_unknowns AND c.state = v.old_state
      -- A released claim past its tombstone must not close or emit events: another
      -- region may own the key.
      AND (v.old_state = 1 OR now() < v.free_at)
    RETURNING v.n, c.home_region, c.tenant_id, c.idem_key, c.object_id, c.operation, c.state, c.reason, c.fence, c.lease_until,
              v.unpaid, v.expiry_due, v.expiry_operation, v.expiry_payload, v.expiry_trace
), finished AS (
    DELETE FROM outbox AS o
    USING settled AS s
    WHERE o.home_region = {{ if .PlansAreKept }}s.home_region{{ else }}$1::crdb_internal_region{{ end }} AND o.id = s.object_id
    RETURNING o.home_region
), booked AS (
    INSERT INTO ledger (
        home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount,
        currency, object_id, reverses, provider, provider_ref)
    SELECT $1::crdb_internal_region, t.id, t.tenant_id, t.kind, now(), t.debit, t.amount, t.credit, -t.amount,
           t.currency, t.object_id, t.reverses, t.provider, t.provider_ref
    FROM settled AS s
    JOIN unnest(
            $29::int4[], $30::text[], $31::text[], $32::text[], $33::text[], $34::text[], $35::int8[],
            $36::text[], $37::text[], $38::text[], $39::text[], $40::text[]
         ) AS t (n, id, tenant_id, kind, debit, credit, amount, currency, object_id, reverses, provider, provider_ref) ON t.n = s.n
    RETURNING ledger.home_region
), told AS (
    INSERT INTO events (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT $1::crdb_internal_region, e.id, e.kind, s.tenant_id, s.idem_key, s.operation, e.payload, e.trace_parent, now(), now(), 0
    FROM settled AS s
    JOIN unnest($41::int4[], $42::text[], $43::text[], $44::bytea[], $45::text[]) AS e (n, id, kind, payload, trace_parent) ON e.n = s.n
    RETURNING events.home_region
), expiring AS (
    INSERT INTO expiries (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT $1::crdb_internal_region, object_id, $46::text, tenant_id, idem_key, expiry_operation, expiry_payload, expiry_trace, now(), expiry_due, 0
    FROM settled
    WHERE expiry_due IS NOT NULL
    ON CONFLICT (home_region, id) DO NOTHING
    RETURNING expiries.home_region
), remembered AS (
    INSERT INTO unpaid (home_region, object_id, tenant_id, operation, state, reason, at, removable_at)
    SELECT $1::crdb_internal_region, object_id, tenant_id, operation, state, reason, now(), now() + $47::interval
    FROM settled
    WHERE unpaid
    ON CONFLICT (home_region, object_id) DO UPDATE SET
        state = excluded.state, reason = excluded.reason, at = excluded.at, removable_at = excluded.removable_at
    RETURNING unpaid.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT $1::crdb_internal_region, s.tenant_id, s.idem_key, now(), a.id, a.event, a.region, a.node, s.fence, a.generation, a.detail
    FROM settled AS s
    JOIN unnest($48::int4[], $49::uuid[], $50::text[], $51::text[], $52::text[], $53::int4[], $54::text[])
         AS a (n, id, event, region, node, generation, detail) ON a.n = s.n
    RETURNING audit.home_region
)
SELECT n, now(), lease_until FROM settled
