-- name: sweep_claims
-- Deletes claims that say nothing any more. PostgreSQL only: CockroachDB's
-- row-level TTL does the same.
DELETE FROM claims AS c
USING (
    SELECT home_region, tenant_id, idem_key FROM claims
    WHERE removable_at <= now() ORDER BY removable_at LIMIT @limit::int8 FOR UPDATE SKIP LOCKED
) AS g
WHERE c.home_region = g.home_region AND c.tenant_id = g.tenant_id AND c.idem_key = g.idem_key AND c.removable_at <= now()
