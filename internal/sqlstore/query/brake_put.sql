-- name: brake_put
-- Changes a brake, unless it has changed since it was read.
INSERT INTO brakes AS b (provider, version, state)
SELECT @provider::text, @version::int8 + 1, @state::bytea
WHERE @version::int8 = 0 OR EXISTS (SELECT 1 FROM brakes WHERE provider = @provider::text)
ON CONFLICT (provider) DO UPDATE SET version = excluded.version, state = excluded.state
WHERE b.version = excluded.version - 1
RETURNING b.version
