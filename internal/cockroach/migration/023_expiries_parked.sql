CREATE INDEX IF NOT EXISTS expiries_parked ON expiries (home_region, id) WHERE parked;
