-- name: calls_finish
UPDATE claims SET
    call_payload = NULL, call_trace = NULL, call_created = NULL, call_due = NULL, call_parked = NULL,
    call_fence = NULL, call_attempts = NULL, call_error = NULL
WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
  AND object_id = @id::text AND call_fence = @fence::int8 AND call_parked IS NULL
