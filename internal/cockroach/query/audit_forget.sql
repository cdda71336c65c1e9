-- name: audit_forget
-- Deletes audit that is in a segment, of keys whose claim says nothing any more.
DELETE FROM audit AS a
USING @entries AS g (tenant_id text, idem_key text, at timestamptz, id uuid)
WHERE a.home_region = @home::crdb_internal_region
  AND a.tenant_id = g.tenant_id AND a.idem_key = g.idem_key AND a.at = g.at AND a.id = g.id
  AND NOT EXISTS (
      SELECT 1 FROM claims AS c
      WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = g.tenant_id AND c.idem_key = g.idem_key
        AND (c.removable_at IS NULL OR c.removable_at > now()))
