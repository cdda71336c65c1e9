-- Money that came in is one thing, whatever it was booked as: see
-- ledger.Transaction.Arrival.
CREATE UNIQUE INDEX IF NOT EXISTS ledger_arrivals ON ledger (home_region, provider, provider_ref)
    WHERE kind IN ('charge', 'ghost') AND provider_ref <> '';
