-- name: witnesses_drop
-- Deletes some witnesses, of a restore that is over.
DELETE FROM witnesses
WHERE (tenant_id, idem_key) IN (SELECT w.tenant_id, w.idem_key FROM witnesses AS w LIMIT @limit::int8)
