-- name: audit_forget
-- See migration 077.
SELECT forget_audit(@home::text, @entries.tenant_id::text[], @entries.idem_key::text[], @entries.at::timestamptz[], @entries.id::uuid[])
