-- Statements look rows up by their keys, however few there are: where statistics say
-- that a table is small, CockroachDB reads all of a region's rows to join them with a
-- group's, and goes on while the table grows, until it looks again.
{{ if .Cockroach }}ALTER TABLE claims INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["idem_key"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["tenant_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000},
    {"columns": ["object_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]'{{ else }}SELECT 1{{ end }};
