-- Lets housekeeping find what may go. CockroachDB's row-level TTL needs none.
{{ if .Cockroach }}SELECT 1{{ else -}}
CREATE INDEX IF NOT EXISTS claims_removable ON claims (removable_at) WHERE removable_at IS NOT NULL{{ end }};
