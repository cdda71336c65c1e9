-- name: begin_here
-- As begin, for keys that have no pin. It does as pin does, in the same step: where the registrar
-- is the home itself, and no other region was registrar lately.
WITH asked AS MATERIALIZED (
    SELECT a.*
    FROM unnest(
        @claims_n::int4[], @claims_tenant_id::text[], @claims_idem_key::text[],
        @claims_object_id::text[], @claims_operation::text[], @claims_fingerprint_version::int2[],
        @claims_fingerprint::bytea[], @claims_holder::text[], @claims_lease::interval[],
        @claims_receipt::text[], @claims_provider_key::text[], @claims_reverses::text[], @claims_step::uuid[],
        @claims_stamped::bool[], @claims_pin_ends::timestamptz[],
        @claims_message_payload::bytea[], @claims_message_trace_parent::text[],
        @claims_message_fence::int8[], @claims_begun_id::uuid[], @claims_begun_region::text[]
    ) AS a (
        n, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint, holder, lease,
        receipt, provider_key, reverses, step, stamped, pin_ends, message_payload, message_trace_parent,
        message_fence, begun_id, begun_region
    )
    WHERE a.n BETWEEN 0 AND 1000000 -- always: see find
), pinned AS (
    INSERT INTO pins (registrar, tenant_id, idem_key, home_region, created_at)
    SELECT @home::crdb_internal_region, a.tenant_id, a.idem_key, @home::crdb_internal_region, now()
    FROM asked AS a
    JOIN tenants AS t ON t.id = a.tenant_id
    WHERE t.registrar = @home::crdb_internal_region AND t.previous_registrar IS NULL
      AND EXISTS (SELECT 1 FROM regions AS r WHERE r.name = @home::crdb_internal_region AND r.status = 0)
    ON CONFLICT DO NOTHING -- on the primary key, which is each database's own
    RETURNING tenant_id, idem_key
), won AS (
    INSERT INTO claims (
        home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint,
        state, fence, holder, lease_until, held_since, first_use, created, receipt,
        generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, reverses, step,
        call_payload, call_trace, call_created, call_due, call_fence,
        begun_id, begun_region, begun_node)
    SELECT @home::crdb_internal_region, a.tenant_id, a.idem_key, a.object_id, a.operation, a.fingerprint_version, a.fingerprint,
           1, 1, a.holder, now() + a.lease, now(), now(), date_trunc('second', now()), a.receipt,
           1, a.provider_key, 1, 0, 0, '', '', NULLIF(a.reverses, ''), a.step,
           a.message_payload, a.message_trace_parent, now(), now() + a.lease, a.message_fence,
           a.begun_id, a.begun_region, a.holder
    FROM asked AS a
    -- A claim under an opaque key needs a pin young enough to outlive it.
    WHERE a.stamped OR now() < a.pin_ends
       OR EXISTS (SELECT 1 FROM pinned AS p WHERE p.tenant_id = a.tenant_id AND p.idem_key = a.idem_key)
    ON CONFLICT (home_region, tenant_id, idem_key) DO NOTHING
    RETURNING tenant_id, idem_key, first_use
)
SELECT a.n, w.first_use
FROM won AS w
JOIN asked AS a ON a.tenant_id = w.tenant_id AND a.idem_key = w.idem_key
