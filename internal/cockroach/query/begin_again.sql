-- name: begin_again
-- An arrival wins a row that exists: one whose answer was "not now", or one that
-- is past its tombstone. The step compared is that of the row the decision was
-- made on, and a decision is good for a moment only.
WITH won AS (
    UPDATE claims SET
        object_id = $5::text, operation = $6::text, fingerprint_version = $7::int2, fingerprint = $8::bytea,
        state = 1, fence = $9::int8, holder = $10::text,
        lease_until = $11::timestamptz, held_since = $12::timestamptz, first_use = $13::timestamptz,
        created = $14::timestamptz, receipt = $15::text, generation = $16::int4, provider_key = $17::text,
        attempts = $18::int4, unknowns = 0, not_founds = 0, reason = '', provider_ref = $19::text,
        settled_at = NULL, step = $20::uuid, removable_at = NULL,
        answered = NULL, answer_status = NULL, answer_header = NULL, answer_body = NULL, answer_blob = NULL,
        refused_at = CASE WHEN $32::bool THEN refused_at END, refusal = CASE WHEN $32::bool THEN refusal END
    WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text
      AND step = $4::uuid AND now() < $21::timestamptz
    RETURNING tenant_id, idem_key, object_id, operation, fence, generation, lease_until
), queued AS (
    INSERT INTO outbox (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT $1::crdb_internal_region, object_id, $22::text, tenant_id, idem_key, operation, $23::bytea, $24::text, $25::timestamptz, lease_until, $26::int8
    FROM won
    ON CONFLICT (home_region, id) DO UPDATE SET
        kind = excluded.kind, operation = excluded.operation, payload = excluded.payload,
        trace_parent = excluded.trace_parent, created_at = excluded.created_at, due = excluded.due,
        fence = excluded.fence, attempts = 0, last_error = '', parked = false
    RETURNING outbox.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT $1::crdb_internal_region, tenant_id, idem_key, $25::timestamptz, $27::uuid, $28::text, $29::text, $30::text, fence, generation, $31::text
    FROM won
    RETURNING audit.home_region
)
SELECT fence FROM won
