-- A few bytes for each block of rows, which lie in the order they were written.
{{ if .Cockroach }}SELECT 1{{ else -}}
CREATE INDEX IF NOT EXISTS audit_at ON audit USING brin (at){{ end }};
