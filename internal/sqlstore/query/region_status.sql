-- name: region_status
-- Sets a region's status, and with it the epoch of the whole table. All rows are
-- locked first, so that two changes at once get two epochs, in the order in which
-- they are seen. Nothing is written where the status is that already, nor where the
-- table is newer than the one the order was given on: a twin of this statement that
-- arrives late must not undo what was ordered since.
WITH every AS (SELECT epoch FROM regions ORDER BY name FOR UPDATE)
UPDATE regions SET status = @status::int2, epoch = (SELECT max(epoch) + 1 FROM every)
WHERE name = @name::crdb_internal_region AND status <> @status::int2 AND (SELECT max(epoch) FROM every) = @epoch::int8
RETURNING epoch
