CREATE INDEX IF NOT EXISTS expiries_due ON expiries (home_region, due, id) WHERE NOT parked;
