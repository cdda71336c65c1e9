{{ if .Cockroach }}SELECT 1{{ else -}}
CREATE INDEX IF NOT EXISTS responses_removable ON responses (removable_at){{ end }};
