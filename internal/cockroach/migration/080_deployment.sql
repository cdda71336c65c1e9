-- Which deployment the rows are of: one row, made once. A copy and a restored backup keep it.
CREATE TABLE IF NOT EXISTS deployment (
    singleton  bool NOT NULL PRIMARY KEY DEFAULT true CHECK (singleton),
    id         uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now()
){{ if .Cockroach }} LOCALITY GLOBAL{{ end }};
