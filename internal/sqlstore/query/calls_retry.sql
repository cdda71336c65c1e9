-- name: calls_retry
-- Postpones a call, or parks it where no pause is given. A reason for a pause counts as a failure.
UPDATE claims SET
    call_due = now() + @pause::interval,
    call_parked = CASE WHEN @pause::interval IS NULL THEN call_due END,
    call_attempts = CASE WHEN @reason::text <> '' AND @pause::interval IS NOT NULL THEN coalesce(call_attempts, 0) + 1 ELSE call_attempts END,
    call_error = CASE WHEN @reason::text <> '' THEN @reason::text ELSE call_error END
WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
  AND object_id = @id::text AND call_fence = @fence::int8 AND call_parked IS NULL
