-- name: elapse
-- Time passes for a test tenant: what it has at home becomes older, a page of keys at a time, and with
-- the first page its notices. No row of a live tenant does, whoever asks. A lease does not end by it:
-- who holds one goes on. Returns the page's size and last key.
WITH page AS (
    SELECT idem_key FROM (
        (SELECT idem_key FROM claims WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key > @idem_key::text
         ORDER BY idem_key LIMIT @limit::int8)
        UNION
        (SELECT idem_key FROM pins WHERE registrar = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key > @idem_key::text
         ORDER BY idem_key LIMIT @limit::int8)) AS of_both
    ORDER BY idem_key
    LIMIT @limit::int8
), claimed AS (
    UPDATE claims AS c SET
        first_use = first_use - @by::interval, settled_at = settled_at - @by::interval, refused_at = refused_at - @by::interval,
        removable_at = removable_at - @by::interval,
        unknowns = CASE WHEN state = 1 AND holder = '' AND unknowns > 0 THEN greatest(unknowns, least(unknowns + @more::int4, @most::int4)) ELSE unknowns END,
        lease_until = CASE WHEN holder = '' THEN lease_until - @by::interval ELSE lease_until END,
        call_due = CASE WHEN holder = '' THEN call_due - @by::interval ELSE call_due END,
        -- Audit keeps its times: the line that begin has left has that of first_use, so it goes into audit now.
        begun_noted = CASE WHEN begun_id IS NOT NULL THEN coalesce(begun_noted, @step::uuid) END
    FROM page AS g
    WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = @tenant_id::text AND c.idem_key = g.idem_key AND right(c.tenant_id, 5) = '~test'
    RETURNING c.object_id, c.tenant_id, c.idem_key, c.first_use + @by::interval AS begun_at, c.begun_id, c.begun_region, c.begun_node, c.operation, c.begun_noted
), noted AS (
    INSERT INTO audit (home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT @home::crdb_internal_region, tenant_id, idem_key, begun_at, begun_id, 'claimed', begun_region, begun_node, 1, 1, operation
    FROM claimed
    WHERE begun_noted = @step::uuid
    RETURNING audit.home_region
), pinned AS (
    UPDATE pins AS p SET created_at = p.created_at - @by::interval
    FROM page AS g
    WHERE p.registrar = @home::crdb_internal_region AND p.tenant_id = @tenant_id::text AND p.idem_key = g.idem_key AND right(p.tenant_id, 5) = '~test'
    RETURNING p.registrar
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
      AND @idem_key::text = ''
    RETURNING home_region
)
SELECT count(*), coalesce(max(idem_key), '') FROM page
