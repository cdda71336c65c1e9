-- name: calls_adopt
-- Gives calls that nodes of the version before left in a table of their own to the claims
-- that they are of. One whose claim is not there, or over, is dropped, as a worker would.
WITH former (id, tenant, key, payload, trace, made, was_due, taken, tries, error, put_by) AS (
    DELETE FROM outbox AS o
    USING (
        SELECT id FROM outbox
        WHERE home_region = @home::crdb_internal_region
        ORDER BY home_region, id
        LIMIT @limit::int8
        FOR UPDATE SKIP LOCKED
    ) AS next
    WHERE o.home_region = @home::crdb_internal_region AND o.id = next.id
    RETURNING o.id, o.tenant_id, o.idem_key, o.payload, o.trace_parent, o.created_at, o.due, o.fence, o.attempts, o.last_error, o.parked
)
UPDATE claims AS c SET
    call_payload = f.payload, call_trace = f.trace, call_created = greatest(f.made, c.first_use), call_fence = f.taken,
    call_due = CASE WHEN NOT f.put_by THEN f.was_due END, call_parked = CASE WHEN f.put_by THEN f.was_due END,
    call_attempts = f.tries, call_error = f.error
FROM former AS f
WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = f.tenant AND c.idem_key = f.key
  AND c.object_id = f.id AND c.state = 1 AND (c.call_created IS NULL OR c.call_created < c.first_use)
