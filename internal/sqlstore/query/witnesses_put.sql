-- name: witnesses_put
-- Writes witnesses, each of a key of its own.
INSERT INTO witnesses (tenant_id, idem_key, state)
SELECT a.tenant_id, a.idem_key, a.state
FROM @rows AS a (tenant_id text, idem_key text, state bytea)
ON CONFLICT (tenant_id, idem_key) DO UPDATE SET state = excluded.state
