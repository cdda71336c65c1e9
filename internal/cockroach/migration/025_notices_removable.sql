{{ if .Cockroach }}SELECT 1{{ else -}}
CREATE INDEX IF NOT EXISTS notices_removable ON notices (removable_at) WHERE removable_at IS NOT NULL{{ end }};
