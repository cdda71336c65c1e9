-- name: endpoint_note
-- A delivery changed something. What it changes is judged anew: another node may
-- have been faster.
UPDATE endpoints AS e SET
    failing_since = CASE WHEN @ok::bool THEN NULL ELSE coalesce(e.failing_since, now()) END,
    disabled_at = CASE WHEN NOT @ok::bool AND e.failing_since <= now() - @disable_after::interval THEN coalesce(e.disabled_at, now()) ELSE e.disabled_at END
WHERE e.tenant_id = @tenant_id::text AND e.url = @url::text
  AND CASE WHEN @ok::bool THEN e.failing_since IS NOT NULL
      ELSE e.failing_since IS NULL OR e.disabled_at IS NULL AND e.failing_since <= now() - @disable_after::interval END
RETURNING now(), e.tenant_id, e.url, e.secrets, e.failing_since, e.disabled_at
