-- As 048, with calls: few claims have one, and fewer a parked one.
{{ if .Cockroach }}ALTER TABLE claims INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["idem_key"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["tenant_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000},
    {"columns": ["object_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["call_due"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000, "null_count": 999000},
    {"columns": ["call_parked"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 10, "null_count": 999990}
]'{{ else }}SELECT 1{{ end }};
