-- name: sweep_audit
-- See migration 078.
SELECT expire_audit(@limit::int8)
