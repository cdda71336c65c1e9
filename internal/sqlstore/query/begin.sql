-- name: begin{{ if .Also }}_here{{ end }}
-- Requests arrive, each for a key of its own. Where there is no row one is made, with
-- the provider call in it, and the first line of audit, which waits there for the row of
-- audit that settle writes. One statement, one round trip.
-- Where there is one nothing changes, and nothing is returned: find reads it.
--
-- begin_here does as pin does for keys that have no pin, in the same step: where the
-- registrar is the home itself, and no other region was registrar lately.
WITH asked AS MATERIALIZED (
    SELECT @home::crdb_internal_region AS home_region, a.*
    FROM @claims AS a (
        n int4, tenant_id text, idem_key text, object_id text, operation text, fingerprint_version int2, fingerprint bytea,
        holder text, lease interval, receipt text, provider_key text, step uuid, stamped bool,{{ if .Also }} pin_here bool,{{ end }} pin_ends timestamptz,
        message_payload bytea, message_trace_parent text, message_fence int8,
        begun_id uuid, begun_region text)
), {{ if .Also }}pinned AS (
    INSERT INTO pins (registrar, tenant_id, idem_key, home_region, created_at)
    SELECT @home::crdb_internal_region, a.tenant_id, a.idem_key, @home::crdb_internal_region, now()
    FROM asked AS a
    JOIN tenants AS t ON t.id = a.tenant_id
    WHERE a.pin_here AND t.registrar = @home::crdb_internal_region AND t.previous_registrar IS NULL
      AND EXISTS (SELECT 1 FROM regions AS r WHERE r.name = @home::crdb_internal_region AND r.status = 0)
    ON CONFLICT {{ if not .PlansAreKept }}(registrar, tenant_id, idem_key) {{ end }}DO NOTHING
    RETURNING tenant_id, idem_key
), {{ end }}won AS (
    INSERT INTO claims (
        home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint,
        state, fence, holder, lease_until, held_since, first_use, created, receipt,
        generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, step,
        call_payload, call_trace, call_created, call_due, call_fence,
        begun_id, begun_region, begun_node)
    SELECT @home::crdb_internal_region, v.tenant_id, v.idem_key, object_id, operation, fingerprint_version, fingerprint,
           1, 1, holder, now() + lease, now(), now(), date_trunc('second', now()), receipt,
           1, provider_key, 1, 0, 0, '', '', step,
           message_payload, message_trace_parent, now(), now() + lease, message_fence,
           begun_id, begun_region, holder
    FROM asked AS v
    -- A claim under an opaque key needs a pin young enough to outlive it.
    WHERE stamped OR now() < pin_ends
    {{- if .Also }}
       OR EXISTS (SELECT 1 FROM pinned AS p WHERE p.tenant_id = v.tenant_id AND p.idem_key = v.idem_key)
    {{- end }}
    ON CONFLICT (home_region, tenant_id, idem_key) DO NOTHING
    RETURNING tenant_id, idem_key, first_use
)
SELECT a.n, w.first_use
FROM won AS w
JOIN asked AS a ON a.tenant_id = w.tenant_id AND a.idem_key = w.idem_key
