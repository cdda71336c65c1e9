-- Deletes rows of audit after the 400 days of migration 014, up to so many, and returns a one
-- for each. CockroachDB does so by itself.
CREATE OR REPLACE FUNCTION expire_audit(p_limit int8)
RETURNS SETOF int8 LANGUAGE sql VOLATILE SECURITY DEFINER {{ if not .Cockroach }}SET search_path = pg_catalog, public, pg_temp {{ end -}}
AS $$
    DELETE FROM audit AS a
    USING (SELECT home_region, tenant_id, idem_key, at, id FROM audit WHERE at <= {{ if .Cockroach }}pg_catalog.{{ end }}now() - INTERVAL '400 days' LIMIT p_limit) AS g
    WHERE a.home_region = g.home_region AND a.tenant_id = g.tenant_id AND a.idem_key = g.idem_key AND a.at = g.at AND a.id = g.id
    RETURNING 1::int8
$$;
