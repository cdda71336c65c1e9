-- name: account_put
-- Changes what is known of a provider's name, unless it has changed since it was read.
INSERT INTO accounts AS a (provider, version, state)
SELECT @provider::text, @version::int8 + 1, @state::bytea
WHERE @version::int8 = 0 OR EXISTS (SELECT 1 FROM accounts WHERE provider = @provider::text)
ON CONFLICT (provider) DO UPDATE SET version = excluded.version, state = excluded.state
WHERE a.version = excluded.version - 1
RETURNING a.version
