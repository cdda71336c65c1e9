-- name: notices_keep
-- Keeps notices that came together, each with the row that makes somebody act on
-- it. One that is there has had its row, and gets no other.
WITH came AS (
    SELECT id, provider, body, trace_parent, after
    FROM unnest(
        @notices_id::text[], @notices_provider::text[], @notices_body::bytea[],
        @notices_trace_parent::text[], @notices_after::interval[]
    ) AS n (id, provider, body, trace_parent, after)
), kept AS (
    INSERT INTO notices (home_region, id, provider, body, received_at, status, detail, trace_parent)
    SELECT @home::crdb_internal_region, id, provider, body, now(), @status::text, '', trace_parent
    FROM came
    ON CONFLICT (home_region, id) DO NOTHING
    RETURNING id, received_at
), queued AS (
    INSERT INTO notices_due (
        home_region, id, kind, tenant_id, idem_key, operation, payload, trace_parent, created_at, due, fence)
    SELECT @home::crdb_internal_region, c.id, @kind::text, '', '', c.provider, c.body, c.trace_parent, k.received_at, k.received_at + c.after, 0
    FROM kept AS k
    JOIN came AS c ON c.id = k.id
    RETURNING notices_due.home_region
)
SELECT count(*) FROM kept
