-- name: brake_put
-- Changes a brake, unless it has changed since it was read.
INSERT INTO brakes AS b (provider, version, state)
SELECT $1::text, $2::int8 + 1, $3::bytea
WHERE $2::int8 = 0 OR EXISTS (SELECT 1 FROM brakes WHERE provider = $1::text)
ON CONFLICT (provider) DO UPDATE SET version = excluded.version, state = excluded.state
WHERE b.version = excluded.version - 1
RETURNING b.version
