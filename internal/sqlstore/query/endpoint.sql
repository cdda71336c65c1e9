-- name: endpoint
SELECT now(), {{ .Endpoint }} FROM endpoints AS e WHERE e.tenant_id = @tenant_id::text
