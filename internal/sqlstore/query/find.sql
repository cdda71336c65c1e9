-- name: find
-- Requests arrive that may not make a claim, or where begin has made none: the claims
-- under their keys, with their responses, and the clock they are to be judged by. It
-- changes nothing, so that a key may be asked for twice.
WITH asked AS MATERIALIZED (
    SELECT @home::crdb_internal_region AS home_region, a.*
    FROM @keys AS a (n int4, tenant_id text, idem_key text)
)
SELECT a.n, now(), {{ .Claim }}
FROM asked AS a
LEFT JOIN claims AS c
    ON c.home_region = {{ if .PlansAreKept }}a.home_region{{ else }}@home::crdb_internal_region{{ end }} AND c.tenant_id = a.tenant_id AND c.idem_key = a.idem_key
