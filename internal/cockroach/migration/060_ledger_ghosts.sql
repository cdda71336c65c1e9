-- Finds what may have to go back at one provider. A charge writes nothing to it.
CREATE INDEX IF NOT EXISTS ledger_ghosts ON ledger (home_region, provider, id) WHERE kind = 'ghost';
