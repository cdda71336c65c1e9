-- name: audit_chain
-- How far a region's audit is exported, with the clock; NULLs where that has not begun.
SELECT now(), a.version, a.number, a.digest, a.from_at, a.to_at, a.part, a.after_tenant, a.after_key, a.after_at, a.after_id, a.swept_until, a.books_at, a.books_id
FROM (SELECT 1) AS one
LEFT JOIN audit_chains AS a ON a.home_region = @home::crdb_internal_region
