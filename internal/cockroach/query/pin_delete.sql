-- name: pin_delete
DELETE FROM pins
WHERE registrar = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text AND created_at = $4::timestamptz
