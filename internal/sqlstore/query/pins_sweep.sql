-- name: pins_sweep
-- Looks at the next pins that a registrar keeps, in the order of their keys from
-- where the last look ended, and deletes those past their life whose key no claim
-- speaks for. All of them are looked at, a page at a time: an index by age would
-- be paid for by every new key. Returns the page's size and last key.
WITH page AS (
    SELECT tenant_id, idem_key, home_region, created_at
    FROM pins
    WHERE registrar = @home::crdb_internal_region AND (tenant_id, idem_key) > (@tenant_id::text, @idem_key::text)
    ORDER BY registrar, tenant_id, idem_key
    LIMIT @limit::int8
), gone AS (
    -- No claim can be made under a pin this old, so that nobody speaks for the key
    -- stays true; a pin that was written anew meanwhile has another time.
    DELETE FROM pins AS p
    USING page AS g
    WHERE p.registrar = @home::crdb_internal_region AND p.tenant_id = g.tenant_id AND p.idem_key = g.idem_key
      AND p.created_at = g.created_at AND g.created_at <= now() - @pin_life::interval
      AND NOT EXISTS (
          SELECT 1 FROM claims AS c
          WHERE c.home_region = g.home_region AND c.tenant_id = g.tenant_id AND c.idem_key = g.idem_key
            AND (c.removable_at IS NULL OR c.removable_at > now()))
    RETURNING p.registrar
)
SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM gone), tenant_id, idem_key
FROM page
ORDER BY tenant_id DESC, idem_key DESC
LIMIT 1
