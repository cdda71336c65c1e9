-- See the next: what it says of outbox is to stay.
{{ if .Cockroach }}ALTER TABLE outbox SET (sql_stats_automatic_collection_enabled = false){{ else }}SELECT 1{{ end }};
