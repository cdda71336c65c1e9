-- Finds the ghosts of a charge, for people who ask what became of it. A charge writes nothing to it.
CREATE INDEX IF NOT EXISTS ledger_ghosts_of ON ledger (home_region, object_id) WHERE kind = 'ghost';
