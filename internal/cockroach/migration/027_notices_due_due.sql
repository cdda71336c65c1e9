CREATE INDEX IF NOT EXISTS notices_due_due ON notices_due (home_region, due, id) WHERE NOT parked;
