-- name: deployment
SELECT id FROM deployment
