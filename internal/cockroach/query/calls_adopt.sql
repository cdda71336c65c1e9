-- name: calls_adopt
-- Gives calls that nodes of the version before left in a table of their own to the claims
-- that they are of; those of claims that are over, or go on with a later call, are dropped.
-- It judges by what it has locked, as such nodes write both rows meanwhile, and on
-- PostgreSQL waits for neither, as they lock them in the other order.
WITH former (id, tenant, key, payload, trace, made, was_due, taken, tries, error, put_by, counts) AS (
    SELECT o.id, o.tenant_id, o.idem_key, o.payload, o.trace_parent, greatest(o.created_at, c.first_use, c.refused_at), o.due, o.fence, o.attempts, o.last_error, o.parked,
           c.state = 1 AND c.object_id = o.id AND NOT coalesce({{ .Open }} AND c.call_fence >= o.fence, false)
    FROM outbox AS o
    JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = o.tenant_id AND c.idem_key = o.idem_key
    WHERE o.home_region = @home::crdb_internal_region
    ORDER BY o.home_region, o.id
    LIMIT @limit::int8
    FOR UPDATE{{ if .PlansAreKept }} OF o, c SKIP LOCKED{{ end }}
), given AS (
    UPDATE claims AS c SET
        call_payload = f.payload, call_trace = f.trace, call_created = f.made, call_fence = f.taken,
        call_due = CASE WHEN NOT f.put_by THEN f.was_due END, call_parked = CASE WHEN f.put_by THEN f.was_due END,
        call_attempts = f.tries, call_error = f.error
    FROM former AS f
    WHERE f.counts AND c.home_region = @home::crdb_internal_region AND c.tenant_id = f.tenant AND c.idem_key = f.key
    RETURNING c.home_region
)
DELETE FROM outbox AS o
USING former AS f
WHERE o.home_region = @home::crdb_internal_region AND o.id = f.id
