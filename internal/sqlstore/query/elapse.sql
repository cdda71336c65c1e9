-- name: elapse
-- Time passes for a test tenant: what it has at home becomes older. No row of a live tenant does,
-- whoever asks. A lease does not end by it: who holds one goes on.
WITH claimed AS (
    UPDATE claims SET
        first_use = first_use - @by::interval, settled_at = settled_at - @by::interval, refused_at = refused_at - @by::interval,
        removable_at = removable_at - @by::interval,
        unknowns = CASE WHEN state = 1 AND holder = '' AND unknowns > 0 THEN greatest(unknowns, least(unknowns + @more::int4, @most::int4)) ELSE unknowns END,
        lease_until = CASE WHEN holder = '' THEN lease_until - @by::interval ELSE lease_until END,
        call_due = CASE WHEN holder = '' THEN call_due - @by::interval ELSE call_due END,
        -- Audit keeps its times: the line that begin has left has that of first_use, so it goes into audit now.
        begun_noted = CASE WHEN begun_id IS NOT NULL THEN coalesce(begun_noted, @step::uuid) END
    WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND right(tenant_id, 5) = '~test'
    RETURNING object_id, tenant_id, idem_key, first_use + @by::interval AS begun_at, begun_id, begun_region, begun_node, operation, begun_noted
), noted AS (
    INSERT INTO audit (home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, tenant_id, idem_key, begun_at, begun_id, 'claimed', begun_region, begun_node, 1, 1, operation
    FROM claimed
    WHERE begun_noted = @step::uuid
    RETURNING audit.home_region
), pinned AS (
    UPDATE pins SET created_at = created_at - @by::interval
    WHERE registrar = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND right(tenant_id, 5) = '~test'
    RETURNING registrar
), closing AS (
    UPDATE expiries AS x SET due = x.due - @by::interval
    FROM claimed AS c
    WHERE x.home_region = @home::crdb_internal_region AND x.id = c.object_id
    RETURNING x.home_region
), remembered AS (
    UPDATE unpaid AS u SET at = u.at - @by::interval, removable_at = u.removable_at - @by::interval
    FROM claimed AS c
    WHERE u.home_region = @home::crdb_internal_region AND u.object_id = c.object_id
    RETURNING u.home_region
), announced AS (
    -- What the provider of test tenants has reported of later. Few wait at any time.
    UPDATE notices_due SET created_at = created_at - @by::interval, due = due - @by::interval
    WHERE home_region = @home::crdb_internal_region AND left(id, char_length(@notices::text)) = @notices::text AND right(@tenant_id::text, 5) = '~test'
    RETURNING home_region
)
SELECT count(*) FROM claimed
