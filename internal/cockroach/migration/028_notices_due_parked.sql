CREATE INDEX IF NOT EXISTS notices_due_parked ON notices_due (home_region, id) WHERE parked;
