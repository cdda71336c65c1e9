-- name: sweep_audit
-- See migration 078.
SELECT count(*)::int8 FROM expire_audit(@limit::int8)
