-- name: settle
-- An attempt ended for good, or with "not now", or a released claim is closed: the
-- claim, its response, the end of its outbox row, the booking, what the world must
-- be told, when the claim closes by itself, whose the object was if no money moved,
-- and the audit, in one statement, one round trip. It changes nothing unless the claim is still the one that the holder
-- was given. A business event that is booked already, or an event that waits already,
-- fails all of it.
WITH settled AS (
    UPDATE claims SET
        state = $7::int2, holder = '', reason = $8::text, unknowns = $9::int4, not_founds = $10::int4,
        provider_ref = $11::text, settled_at = CASE WHEN $12::bool THEN now() END,
        refused_at = CASE WHEN $53::bytea IS NOT NULL THEN now() END, refusal = $53::bytea,
        removable_at = greatest($13::timestamptz, now() + $14::interval), step = $15::uuid
    WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text
      AND object_id = $4::text AND fence = $5::int8 AND unknowns = $6::int4 AND state = $30::int2
      -- A released claim past its tombstone must not close or emit events: another
      -- region may own the key.
      AND ($30::int2 = 1 OR now() < $51::timestamptz)
    RETURNING tenant_id, idem_key, object_id, operation, lease_until, removable_at
), answered AS (
    INSERT INTO responses (home_region, tenant_id, object_id, status, header_names, header_values, body, blob, removable_at)
    SELECT $1::crdb_internal_region, tenant_id, object_id, $16::int2, $17::text[], $18::bytea[], $19::bytea, $20::text, removable_at
    FROM settled
    WHERE $12::bool
    RETURNING responses.home_region
), finished AS (
    DELETE FROM outbox
    WHERE home_region = $1::crdb_internal_region AND id IN (SELECT object_id FROM settled){{ if .PlansAreKept }} AND id = $4::text{{ end }}
    RETURNING outbox.home_region
), booked AS (
    INSERT INTO ledger (
        home_region, id, tenant_id, kind, at, debit_account, debit_amount, credit_account, credit_amount,
        currency, object_id, reverses, provider, provider_ref)
    SELECT $1::crdb_internal_region, $31::text, $32::text, $33::text, now(), $34::text, $36::int8, $35::text, -$36::int8,
           $37::text, $38::text, $39::text, $40::text, $41::text
    FROM settled
    WHERE $31::text IS NOT NULL
    RETURNING ledger.home_region
), told AS (
    INSERT INTO events (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT $1::crdb_internal_region, e.id, e.kind, s.tenant_id, s.idem_key, s.operation, e.payload, e.trace_parent, now(), now(), 0
    FROM settled AS s, unnest($42::text[], $43::text[], $44::bytea[], $45::text[]) AS e (id, kind, payload, trace_parent)
    RETURNING events.home_region
), expiring AS (
    INSERT INTO expiries (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT $1::crdb_internal_region, s.object_id, $46::text, s.tenant_id, s.idem_key, e.operation, e.payload, e.trace_parent, now(), e.due, 0
    -- One row or none, but not a condition: CockroachDB would see that it is false,
    -- and not any more that the table is looked at in one region only.
    FROM settled AS s, unnest($47::text[], $48::bytea[], $49::text[], $50::timestamptz[]) AS e (operation, payload, trace_parent, due)
    ON CONFLICT (home_region, id) DO NOTHING
    RETURNING expiries.home_region
), remembered AS (
    INSERT INTO unpaid (home_region, object_id, tenant_id, operation, state, reason, at, removable_at)
    SELECT $1::crdb_internal_region, s.object_id, s.tenant_id, s.operation, $7::int2, $8::text, now(), now() + u.life
    FROM settled AS s, unnest($52::interval[]) AS u (life) -- one row or none, as above
    ON CONFLICT (home_region, object_id) DO UPDATE SET
        state = excluded.state, reason = excluded.reason, at = excluded.at, removable_at = excluded.removable_at
    RETURNING unpaid.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT $1::crdb_internal_region, s.tenant_id, s.idem_key, now(), a.id, a.event, $21::text, $22::text, $5::int8, $23::int4, a.detail
    FROM settled AS s, (VALUES ($24::uuid, $25::text, $26::text), ($27::uuid, $28::text, $29::text)) AS a (id, event, detail)
    RETURNING audit.home_region
)
SELECT now(), lease_until FROM settled
