-- name: replica
-- What the nearest replica of each home has of some keys: final answers, and pins of
-- those that are opaque. Rows are a few seconds old, which neither minds; the clock is
-- today's. It changes nothing, so that a key may be asked for twice.
SELECT a.n, clock_timestamp(), p.home_region, p.created_at, c.home_region, {{ .Claim }}
FROM unnest($1::int4[], $2::text[], $3::text[], $4::bool[]) AS a (n, tenant_id, idem_key, opaque)
CROSS JOIN regions AS g
LEFT JOIN claims AS c ON c.home_region = g.name AND c.tenant_id = a.tenant_id AND c.idem_key = a.idem_key AND c.state IN (2, 3)
LEFT JOIN responses AS r ON r.home_region = c.home_region AND r.tenant_id = c.tenant_id AND r.object_id = c.object_id AND c.answered IS DISTINCT FROM c.step
LEFT JOIN pins AS p ON a.opaque AND p.registrar = g.name AND p.tenant_id = a.tenant_id AND p.idem_key = a.idem_key
{{ .FromReplica }}
WHERE c.step IS NOT NULL OR p.created_at IS NOT NULL
