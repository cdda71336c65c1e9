-- As with expiries: settle looks for what waits of a group's keys, and a table that
-- counts as small would be read whole, with all that was deleted from it lately.
{{ if .Cockroach }}ALTER TABLE events INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["tenant_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000},
    {"columns": ["idem_key"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]'{{ else }}SELECT 1{{ end }};
