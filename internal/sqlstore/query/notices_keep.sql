-- name: notices_keep
-- Keeps notices that came together, each with the row that makes somebody act on
-- it. One that is there has had its row, and gets no other.
WITH kept AS (
    INSERT INTO notices (home_region, id, provider, body, received_at, status, detail, trace_parent)
    SELECT @home::crdb_internal_region, n.id, n.provider, n.body, now(), @status::text, '', n.trace_parent
    FROM unnest(
        @notices_id::text[], @notices_provider::text[], @notices_body::bytea[],
        @notices_trace_parent::text[]
    ) AS n (id, provider, body, trace_parent)
    ON CONFLICT (home_region, id) DO NOTHING
    RETURNING id, provider, body, received_at, trace_parent
), queued AS (
    INSERT INTO notices_due (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, id, @kind::text, '', '', provider, body, trace_parent, received_at, received_at, 0
    FROM kept
    RETURNING notices_due.home_region
)
SELECT count(*) FROM kept
