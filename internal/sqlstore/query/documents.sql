-- name: documents
-- Documents of a kind from a name on, with the clock: one row without a name where there are none.
SELECT now(), d.name, d.version, d.state
FROM (SELECT 1) AS one
LEFT JOIN (
    SELECT name, version, state FROM documents WHERE kind = @kind::text AND name >= @from::text ORDER BY name LIMIT @limit::int8
) AS d ON true
ORDER BY d.name
