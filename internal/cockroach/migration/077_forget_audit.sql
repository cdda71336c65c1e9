-- The one way in which a node deletes audit, whose table it may neither update nor delete from:
-- rows each line of which is in a segment, by the node's word, and that are three days old and
-- of keys whose claim says nothing any more, by the database's. Returns how many lines each row
-- had. The three days are audit.MinKeepRows. In a WITH, and in a cast to a
-- type of the database, CockroachDB does not find arguments.
CREATE OR REPLACE FUNCTION forget_audit(p_home crdb_internal_region, p_tenants text[], p_keys text[], p_ats timestamptz[], p_ids uuid[])
RETURNS SETOF int8 LANGUAGE sql VOLATILE SECURITY DEFINER {{ if not .Cockroach }}SET search_path = pg_catalog, public, pg_temp {{ end -}}
AS $$
    DELETE FROM audit AS a
    USING unnest(p_tenants, p_keys, p_ats, p_ids) AS g (tenant_id, idem_key, at, id)
    WHERE a.home_region = p_home
      AND a.tenant_id = g.tenant_id AND a.idem_key = g.idem_key AND a.at = g.at AND a.id = g.id
      AND a.at <= {{ if .Cockroach }}pg_catalog.{{ end }}now() - INTERVAL '3 days'
      AND coalesce(a.attempt_id = ANY (p_ids), true)
      AND coalesce(a.begun_id = ANY (p_ids), true)
      AND NOT EXISTS (
          SELECT 1 FROM claims AS c
          WHERE c.home_region = p_home AND c.tenant_id = g.tenant_id AND c.idem_key = g.idem_key
            AND (c.removable_at IS NULL OR c.removable_at > {{ if .Cockroach }}pg_catalog.{{ end }}now()))
    RETURNING (1 + CASE WHEN a.attempt_id IS NULL THEN 0 ELSE 1 END + CASE WHEN a.begun_id IS NULL THEN 0 ELSE 1 END)::int8
$$;
