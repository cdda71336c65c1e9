-- In the order in which workers take rows: FOR UPDATE SKIP LOCKED locks what it
-- scans, so the index must deliver exactly what is wanted.
CREATE INDEX IF NOT EXISTS outbox_due ON outbox (home_region, due, id) WHERE NOT parked;
