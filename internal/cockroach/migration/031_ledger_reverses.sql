-- Finds what takes a transaction back.
CREATE INDEX IF NOT EXISTS ledger_reverses ON ledger (home_region, reverses) WHERE reverses <> '';
