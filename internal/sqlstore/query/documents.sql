-- name: documents
-- The documents of a kind, with the clock: one row without a name where there are none.
SELECT now(), d.name, d.version, d.state
FROM (SELECT 1) AS one
LEFT JOIN documents AS d ON d.kind = @kind::text
ORDER BY d.name
