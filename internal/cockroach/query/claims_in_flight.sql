-- name: claims_in_flight
-- Claims of a region whose outcome is still to come. Each has its call, from Begin to
-- Settle, so that not every claim has to be looked at. What is parked waits for a person.
SELECT (SELECT count(*)
        FROM claims AS c
        WHERE c.home_region = @home::crdb_internal_region AND c.call_due IS NOT NULL AND {{ .Open }})
     + (SELECT count(*)
        FROM outbox AS o
        JOIN claims AS c ON c.home_region = @home::crdb_internal_region AND c.tenant_id = o.tenant_id AND c.idem_key = o.idem_key
        WHERE o.home_region = @home::crdb_internal_region AND NOT o.parked AND c.object_id = o.id AND c.state = 1 AND c.call_due IS NULL)
