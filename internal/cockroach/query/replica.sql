-- name: replica
-- A final answer from the nearest replica, whatever its home. Rows are a few
-- seconds old, which a final answer does not mind; the clock is today's.
SELECT clock_timestamp(), c.home_region, {{ .Claim }}
FROM regions AS g
JOIN claims AS c ON c.home_region = g.name AND c.tenant_id = $1::text AND c.idem_key = $2::text
LEFT JOIN responses AS r ON r.home_region = c.home_region AND r.tenant_id = c.tenant_id AND r.object_id = c.object_id AND c.answered IS DISTINCT FROM c.step
{{ .FromReplica }}
WHERE c.state IN (2, 3)
