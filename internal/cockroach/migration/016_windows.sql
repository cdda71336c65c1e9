-- The longest windows that claims in this database were promised, in microseconds:
-- one row. A node with shorter ones would give a key away that is still promised.
CREATE TABLE IF NOT EXISTS windows (
    id            int2 NOT NULL PRIMARY KEY CHECK (id = 1),
    replay_for    int8 NOT NULL,
    tombstone_for int8 NOT NULL,
    pin_grace     int8 NOT NULL
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
