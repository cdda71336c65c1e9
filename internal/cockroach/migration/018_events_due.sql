CREATE INDEX IF NOT EXISTS events_due ON events (home_region, due, id) WHERE NOT parked;
