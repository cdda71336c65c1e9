-- See the next: what it says of events is to stay.
{{ if .Cockroach }}ALTER TABLE events SET (sql_stats_automatic_collection_enabled = false){{ else }}SELECT 1{{ end }};
