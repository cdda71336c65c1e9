{{ if .Cockroach }}CREATE INDEX IF NOT EXISTS claims_calls_parked ON claims (home_region, object_id) WHERE call_parked IS NOT NULL
{{- else }}DROP INDEX CONCURRENTLY IF EXISTS claims_calls_parked;
CREATE INDEX CONCURRENTLY claims_calls_parked ON claims (home_region, object_id) WHERE call_parked IS NOT NULL{{ end }};
