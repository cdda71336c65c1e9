-- name: witness
-- What is known of a key whose claim a restore has lost.
SELECT state FROM witnesses WHERE tenant_id = @tenant_id::text AND idem_key = @idem_key::text
