-- name: audit_forget
-- See the function, in migration/.
SELECT coalesce(sum(f.lines), 0)::int8
FROM forget_audit(@home::crdb_internal_region, @entries.tenant_id::text[], @entries.idem_key::text[], @entries.at::timestamptz[], @entries.id::uuid[]) AS f (lines)
