-- name: unpaid
-- Whose an object was for which no money moved, with authority. One that may be
-- deleted and is not yet still tells the truth.
SELECT tenant_id, operation, state, reason, at
FROM unpaid
WHERE home_region = @home::crdb_internal_region AND object_id = @object_id::text
