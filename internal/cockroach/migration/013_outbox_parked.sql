CREATE INDEX IF NOT EXISTS outbox_parked ON outbox (home_region, id) WHERE parked;
