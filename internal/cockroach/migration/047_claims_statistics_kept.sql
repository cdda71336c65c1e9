-- See the next: what it says of claims is to stay.
{{ if .Cockroach }}ALTER TABLE claims SET (sql_stats_automatic_collection_enabled = false){{ else }}SELECT 1{{ end }};
