-- Finds what of a key, for the same sink, came before a row.
CREATE INDEX IF NOT EXISTS events_in_order ON events (home_region, tenant_id, idem_key, kind, created_at, id) WHERE NOT parked;
