-- Finds what is about a charge, for people who ask what became of it: ghosts, disputes,
-- failures, fees. A charge, a transfer and a refund write nothing to it. It takes the place of
-- ledger_ghosts_of, which nodes of the version before read.
{{ if .Cockroach }}CREATE INDEX IF NOT EXISTS ledger_about ON ledger (home_region, object_id) WHERE kind NOT IN ('charge', 'transfer', 'refund')
{{- else }}DROP INDEX CONCURRENTLY IF EXISTS ledger_about;
CREATE INDEX CONCURRENTLY ledger_about ON ledger (home_region, object_id) WHERE kind NOT IN ('charge', 'transfer', 'refund'){{ end }};
