-- Lets housekeeping find what may go. CockroachDB's row-level TTL needs none.
{{ if .Cockroach }}SELECT 1{{ else -}}
CREATE INDEX IF NOT EXISTS unpaid_removable ON unpaid (removable_at){{ end }};
