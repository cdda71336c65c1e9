-- name: replica_pin
SELECT clock_timestamp(), p.home_region, p.created_at
FROM regions AS g
JOIN pins AS p ON p.registrar = g.name AND p.tenant_id = $1::text AND p.idem_key = $2::text
{{ .FromReplica }}
ORDER BY p.created_at DESC
LIMIT 1
