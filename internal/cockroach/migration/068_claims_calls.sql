-- In the order in which workers take calls, see outbox_due. PostgreSQL makes it beside the
-- writes of nodes; what a try that failed left is not usable, and is made anew.
{{ if .Cockroach }}CREATE INDEX IF NOT EXISTS claims_calls ON claims (home_region, call_due, object_id) WHERE call_due IS NOT NULL
{{- else }}DROP INDEX CONCURRENTLY IF EXISTS claims_calls;
CREATE INDEX CONCURRENTLY claims_calls ON claims (home_region, call_due, object_id) WHERE call_due IS NOT NULL{{ end }};
