-- name: sweep
-- Deletes some rows that say nothing any more. On PostgreSQL only: CockroachDB's row-level TTL
-- does the same. For audit see the function, in migration/.
WITH gone_claims AS (
    DELETE FROM claims AS c
    USING (
        SELECT home_region, tenant_id, idem_key FROM claims
        WHERE removable_at <= now() ORDER BY removable_at LIMIT @limit::int8 FOR UPDATE SKIP LOCKED
    ) AS g
    WHERE c.home_region = g.home_region AND c.tenant_id = g.tenant_id AND c.idem_key = g.idem_key AND c.removable_at <= now()
    RETURNING c.home_region
), gone_notices AS (
    DELETE FROM notices AS n
    USING (
        SELECT home_region, id FROM notices
        WHERE removable_at <= now() ORDER BY removable_at LIMIT @limit::int8 FOR UPDATE SKIP LOCKED
    ) AS g
    WHERE n.home_region = g.home_region AND n.id = g.id
    RETURNING n.home_region
), gone_unpaid AS (
    DELETE FROM unpaid AS u
    USING (
        SELECT home_region, object_id FROM unpaid
        WHERE removable_at <= now() ORDER BY removable_at LIMIT @limit::int8 FOR UPDATE SKIP LOCKED
    ) AS g
    WHERE u.home_region = g.home_region AND u.object_id = g.object_id AND u.removable_at <= now()
    RETURNING u.home_region
)
SELECT (SELECT count(*) FROM gone_claims) + (SELECT count(*) FROM gone_notices) + (SELECT count(*) FROM gone_unpaid)
     + (SELECT count(*) FROM expire_audit(@limit::int8))
