-- name: region_status
-- Sets a region's status, and with it the epoch of the whole table. All rows are
-- locked first, so that two changes at once get two epochs, in the order in which
-- they are seen. Nothing is written where the status is that already.
WITH every AS (SELECT epoch FROM regions ORDER BY name FOR UPDATE)
UPDATE regions SET status = $2::int2, epoch = (SELECT max(epoch) + 1 FROM every)
WHERE name = $1::crdb_internal_region AND status <> $2::int2
RETURNING epoch
