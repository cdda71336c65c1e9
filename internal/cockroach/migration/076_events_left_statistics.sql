-- As with events: a table that counts as small would be read whole.
{{ if .Cockroach }}ALTER TABLE events_left INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["created_at"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 100000},
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]'{{ else }}SELECT 1{{ end }};
