-- name: witnesses_drop
-- Deletes some witnesses, of a restore that is over. Nothing is deleted if its row has changed since it
-- was read, and the row is locked, so that it does not change before the witnesses are gone.
WITH still AS MATERIALIZED (
    SELECT d.version FROM documents AS d
    WHERE d.kind = @kind::text AND d.name = '' AND d.version = @version::int8
    FOR SHARE
)
DELETE FROM witnesses
WHERE (tenant_id, idem_key) IN (SELECT w.tenant_id, w.idem_key FROM witnesses AS w LIMIT @limit::int8)
  AND EXISTS (SELECT 1 FROM still)
