-- name: witnesses_put
-- Writes witnesses, each of a key of its own.
INSERT INTO witnesses (tenant_id, idem_key, state)
SELECT a.tenant_id, a.idem_key, a.state
FROM unnest(@rows_tenant_id::text[], @rows_idem_key::text[], @rows_state::bytea[]) AS a (tenant_id, idem_key, state)
ON CONFLICT (tenant_id, idem_key) DO UPDATE SET state = excluded.state
