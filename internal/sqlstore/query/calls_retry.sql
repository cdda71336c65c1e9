-- name: calls_retry
-- As outbox_retry.
UPDATE claims AS c SET
    call_due = now() + @pause::interval,
    call_attempts = CASE WHEN @reason::text <> '' THEN coalesce(c.call_attempts, 0) + 1 ELSE c.call_attempts END,
    call_error = CASE WHEN @reason::text <> '' THEN @reason::text ELSE c.call_error END
WHERE c.home_region = @home::crdb_internal_region AND c.object_id = @id::text AND c.call_fence = @fence::int8
  AND c.call_parked IS NULL
RETURNING c.fence
