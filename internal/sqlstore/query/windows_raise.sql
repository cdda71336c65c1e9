-- name: windows_raise
-- Windows only grow: a node that is not restarted yet keeps to the shorter ones for
-- a while, under which every claim that there is was made.
INSERT INTO windows (id, replay_for, tombstone_for, pin_grace) VALUES (1, @replay_for::int8, @tombstone_for::int8, @pin_grace::int8)
ON CONFLICT (id) DO UPDATE SET
    replay_for = greatest(windows.replay_for, excluded.replay_for),
    tombstone_for = greatest(windows.tombstone_for, excluded.tombstone_for),
    pin_grace = greatest(windows.pin_grace, excluded.pin_grace)
RETURNING replay_for, tombstone_for, pin_grace
