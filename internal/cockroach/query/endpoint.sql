-- name: endpoint
SELECT now(), {{ .Endpoint }} FROM endpoints AS e WHERE e.tenant_id = $1::text
