-- name: get
-- One claim with authority, and the clock it is to be judged by.
SELECT now(), NULL::timestamptz, {{ .Claim }}
FROM (SELECT 1) AS one
LEFT JOIN claims AS c
    ON c.home_region = @home::crdb_internal_region AND c.tenant_id = @tenant_id::text AND c.idem_key = @idem_key::text
