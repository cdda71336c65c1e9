-- name: claims_in_flight
-- Claims of a region whose outcome is still to come. Each has its call, from Begin to
-- Settle, so that not every claim has to be looked at. What is parked waits for a person.
SELECT count(*)
FROM claims AS c
WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL
