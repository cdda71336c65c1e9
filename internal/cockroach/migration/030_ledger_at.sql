-- The order in which the books are read.
CREATE INDEX IF NOT EXISTS ledger_at ON ledger (home_region, at, id);
