-- name: endpoint_put
INSERT INTO endpoints (tenant_id, url, secrets) VALUES ($1::text, $2::text, $3::text[])
ON CONFLICT (tenant_id) DO UPDATE SET
    url = excluded.url, secrets = excluded.secrets, failing_since = NULL, disabled_at = NULL
