-- name: audit_forget
-- Deletes rows of audit each line of which is in a segment, of keys whose claim says
-- nothing any more, and returns how many lines they had.
WITH gone AS (
    DELETE FROM audit AS a
    USING @entries AS g (tenant_id text, idem_key text, at timestamptz, id uuid)
    WHERE a.home_region = @home::crdb_internal_region
      AND a.tenant_id = g.tenant_id AND a.idem_key = g.idem_key AND a.at = g.at AND a.id = g.id
      AND coalesce(a.attempt_id IN (SELECT l.id FROM @entries AS l (id uuid)), true)
      AND coalesce(a.begun_id IN (SELECT l.id FROM @entries AS l (id uuid)), true)
      AND NOT EXISTS (
          SELECT 1 FROM claims AS c
          WHERE c.home_region = @home::crdb_internal_region AND c.tenant_id = g.tenant_id AND c.idem_key = g.idem_key
            AND (c.removable_at IS NULL OR c.removable_at > now()))
    RETURNING 1 + CASE WHEN a.attempt_id IS NULL THEN 0 ELSE 1 END + CASE WHEN a.begun_id IS NULL THEN 0 ELSE 1 END AS lines
)
SELECT coalesce(sum(lines), 0)::int8 FROM gone
