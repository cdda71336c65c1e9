-- name: restore
-- The row that says that the rows are those of a backup, with the clock; NULLs for none.
SELECT now(), r.version, r.state
FROM (VALUES (1)) AS one (n)
LEFT JOIN restores AS r ON r.singleton
