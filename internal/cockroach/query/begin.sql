-- name: begin
-- Requests arrive, each for a key of its own. Where there is no row one is made, with
-- the provider call in the outbox and the first line of audit; where there is one it
-- is returned, with its response, and nothing changes. One statement, one round
-- trip. Both halves are empty when another arrival commits in the same moment.
WITH asked AS MATERIALIZED (
    SELECT $1::crdb_internal_region AS home_region, a.n, a.tenant_id, a.idem_key, a.object_id, a.operation, a.fingerprint_version, a.fingerprint,
           a.holder, a.lease, a.receipt, a.provider_key, a.step, a.stamped, a.pin_ends,
           a.kind, a.payload, a.trace_parent, a.fence, a.entry, a.event, a.region, a.node, a.detail
    FROM unnest(
            $2::int4[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int2[], $8::bytea[],
            $9::text[], $10::interval[], $11::text[], $12::text[], $13::uuid[], $14::bool[], $15::timestamptz[],
            $16::text[], $17::bytea[], $18::text[], $19::int8[], $20::uuid[], $21::text[], $22::text[], $23::text[], $24::text[]
         ) AS a (n, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint,
                 holder, lease, receipt, provider_key, step, stamped, pin_ends,
                 kind, payload, trace_parent, fence, entry, event, region, node, detail)
), won AS (
    INSERT INTO claims (
        home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint,
        state, fence, holder, lease_until, held_since, first_use, created, receipt,
        generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, step)
    SELECT $1::crdb_internal_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint,
           1, 1, holder, now() + lease, now(), now(), date_trunc('second', now()), receipt,
           1, provider_key, 1, 0, 0, '', '', step
    FROM asked
    -- A claim under an opaque key needs a pin young enough to outlive it.
    WHERE stamped OR now() < pin_ends
    ON CONFLICT (home_region, tenant_id, idem_key) DO NOTHING
    RETURNING tenant_id, idem_key, object_id, operation, fence, generation, holder, lease_until, first_use
), queued AS (
    INSERT INTO outbox (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT $1::crdb_internal_region, w.object_id, a.kind, w.tenant_id, w.idem_key, w.operation, a.payload, a.trace_parent, w.first_use, w.lease_until, a.fence
    FROM won AS w
    JOIN asked AS a ON a.tenant_id = w.tenant_id AND a.idem_key = w.idem_key
    RETURNING outbox.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT $1::crdb_internal_region, w.tenant_id, w.idem_key, w.first_use, a.entry, a.event, a.region, a.node, w.fence, w.generation, a.detail
    FROM won AS w
    JOIN asked AS a ON a.tenant_id = w.tenant_id AND a.idem_key = w.idem_key
    RETURNING audit.home_region
)
SELECT a.n, now(), w.first_use, {{ .Claim }}
FROM asked AS a
LEFT JOIN won AS w ON w.tenant_id = a.tenant_id AND w.idem_key = a.idem_key
LEFT JOIN claims AS c
    ON w.first_use IS NULL AND c.home_region = {{ if .PlansAreKept }}a.home_region{{ else }}$1::crdb_internal_region{{ end }} AND c.tenant_id = a.tenant_id AND c.idem_key = a.idem_key
LEFT JOIN responses AS r
    ON r.home_region = {{ if .PlansAreKept }}c.home_region{{ else }}$1::crdb_internal_region{{ end }} AND r.tenant_id = c.tenant_id AND r.object_id = c.object_id AND c.answered IS DISTINCT FROM c.step
