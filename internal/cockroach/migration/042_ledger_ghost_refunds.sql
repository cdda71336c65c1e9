-- Finds the refund of a ghost by its object, which is what a provider names.
CREATE INDEX IF NOT EXISTS ledger_ghost_refunds ON ledger (home_region, object_id) WHERE kind = 'ghost_refund';
