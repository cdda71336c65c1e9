-- name: ledger_arrivals
-- What a movement that came in is booked as, in the books of every region.
SELECT {{ .Transaction }}
FROM regions AS g
JOIN ledger AS l ON l.home_region = g.name AND l.provider = @provider::text AND l.provider_ref = @provider_ref::text
    AND l.kind IN ('charge', 'ghost') AND l.provider_ref <> ''
