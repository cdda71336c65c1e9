-- name: sweep_audit
-- See the function, in migration/.
SELECT count(*)::int8 FROM expire_audit(@limit::int8)
