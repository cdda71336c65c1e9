-- name: begin
-- A request arrives for a key. Where there is no row one is made, with the
-- provider call in the outbox and the first line of audit; where there is one it
-- is returned, with its response, and nothing changes. One statement, one round
-- trip. Both halves are empty when another arrival commits in the same moment.
WITH won AS (
    INSERT INTO claims (
        home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint,
        state, fence, holder, lease_until, held_since, first_use, created, receipt,
        generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, step)
    SELECT $1::crdb_internal_region, $2::text, $3::text, $4::text, $5::text, $6::int2, $7::bytea,
           1, 1, $8::text, now() + $9::interval, now(), now(), date_trunc('second', now()), $10::text,
           1, $11::text, 1, 0, 0, '', '', $12::uuid
    -- A claim under an opaque key needs a pin young enough to outlive it.
    WHERE $13::bool OR now() < $14::timestamptz
    ON CONFLICT (home_region, tenant_id, idem_key) DO NOTHING
    RETURNING tenant_id, idem_key, object_id, operation, fence, generation, holder, lease_until, first_use
), queued AS (
    INSERT INTO outbox (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT $1::crdb_internal_region, object_id, $15::text, tenant_id, idem_key, operation, $16::bytea, $17::text, first_use, lease_until, $18::int8
    FROM won
    RETURNING outbox.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT $1::crdb_internal_region, tenant_id, idem_key, first_use, $19::uuid, $20::text, $21::text, $22::text, fence, generation, $23::text
    FROM won
    RETURNING audit.home_region
)
SELECT now(), w.first_use, {{ .Claim }}
FROM (SELECT 1) AS one
LEFT JOIN won AS w ON true
LEFT JOIN claims AS c
    ON w.first_use IS NULL AND c.home_region = $1::crdb_internal_region AND c.tenant_id = $2::text AND c.idem_key = $3::text
LEFT JOIN responses AS r
    ON r.home_region = $1::crdb_internal_region AND r.tenant_id = $2::text AND r.object_id = c.object_id
