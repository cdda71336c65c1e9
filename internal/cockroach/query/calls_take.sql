-- name: calls_take
-- As outbox_take. A call that a node of the version before left with a claim that it
-- settled, or began anew, is over: it is cleared, and not returned.
WITH ready AS (
    SELECT tenant_id, idem_key, call_due AS was
    FROM claims
    WHERE home_region = @home::crdb_internal_region AND call_due IS NOT NULL AND call_due <= now()
    ORDER BY home_region, call_due, object_id
    LIMIT @limit::int8
    FOR UPDATE SKIP LOCKED
), taken (was, {{ .MessageNames }}) AS (
    UPDATE claims AS c SET
        call_fence = c.call_fence + 1,
        call_due = CASE WHEN {{ .Open }} THEN now() + @lease::interval END,
        call_created = CASE WHEN {{ .Open }} THEN c.call_created END,
        call_payload = CASE WHEN {{ .Open }} THEN c.call_payload END
    FROM ready
    WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = ready.tenant_id AND c.idem_key = ready.idem_key
    RETURNING ready.was, {{ .Call }}
)
SELECT o.was, {{ .Message }}
FROM taken AS o
WHERE o.due IS NOT NULL
