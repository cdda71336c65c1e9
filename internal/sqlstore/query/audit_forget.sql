-- name: audit_forget
-- See the function, in migration/.
SELECT coalesce(sum(f.lines), 0)::int8
FROM forget_audit(@home::crdb_internal_region, @entries_tenant_id::text[], @entries_idem_key::text[], @entries_at::timestamptz[], @entries_id::uuid[]) AS f (lines)
