-- See the next: what it says of events_left is to stay.
{{ if .Cockroach }}ALTER TABLE events_left SET (sql_stats_automatic_collection_enabled = false){{ else }}SELECT 1{{ end }};
