-- name: restore_put
-- Changes the row of restores, unless it has changed since it was read.
INSERT INTO restores AS r (singleton, version, state)
SELECT true, @version::int8 + 1, @state::bytea
WHERE @version::int8 = 0 OR EXISTS (SELECT 1 FROM restores)
ON CONFLICT (singleton) DO UPDATE SET version = excluded.version, state = excluded.state
WHERE r.version = excluded.version - 1
RETURNING r.version
