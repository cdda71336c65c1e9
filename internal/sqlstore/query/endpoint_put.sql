-- name: endpoint_put
INSERT INTO endpoints (tenant_id, url, secrets) VALUES (@tenant_id::text, @url::text, @secrets::text[])
ON CONFLICT (tenant_id) DO UPDATE SET
    url = excluded.url, secrets = excluded.secrets, failing_since = NULL, disabled_at = NULL
