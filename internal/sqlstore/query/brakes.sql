-- name: brakes
-- Every brake, with the clock; one row without a name's version where there is none.
SELECT now(), b.provider, b.version, b.state
FROM (VALUES (1)) AS one (n)
LEFT JOIN brakes AS b ON b.version > 0
