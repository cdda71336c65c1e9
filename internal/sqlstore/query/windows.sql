-- name: windows
SELECT replay_for, tombstone_for, pin_grace FROM windows WHERE id = 1
