-- The type of every region column. CockroachDB makes it with the database's
-- first region; PostgreSQL gets the same name, so that the statements of query/
-- are the same on both.
{{ if .Cockroach }}SELECT 1{{ else -}}
DO $$ BEGIN
    CREATE DOMAIN crdb_internal_region AS text;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$
{{- end }};
