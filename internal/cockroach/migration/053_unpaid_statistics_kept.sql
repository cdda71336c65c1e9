-- See the next: what it says of unpaid is to stay.
{{ if .Cockroach }}ALTER TABLE unpaid SET (sql_stats_automatic_collection_enabled = false){{ else }}SELECT 1{{ end }};
