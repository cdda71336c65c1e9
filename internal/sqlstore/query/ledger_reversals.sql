-- name: ledger_reversals
-- What takes a transaction back, in the books of every region.
SELECT {{ .Transaction }}
FROM regions AS g
JOIN ledger AS l ON l.home_region = g.name AND l.reverses = @id::text AND l.reverses <> ''
