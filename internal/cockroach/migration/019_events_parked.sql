CREATE INDEX IF NOT EXISTS events_parked ON events (home_region, id) WHERE parked;
