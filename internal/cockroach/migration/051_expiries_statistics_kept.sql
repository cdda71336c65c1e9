-- See the next: what it says of expiries is to stay.
{{ if .Cockroach }}ALTER TABLE expiries SET (sql_stats_automatic_collection_enabled = false){{ else }}SELECT 1{{ end }};
