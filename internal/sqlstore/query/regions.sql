-- name: regions
SELECT name, code, status, epoch FROM regions ORDER BY name
