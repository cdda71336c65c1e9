-- name: outbox_row
SELECT fence FROM outbox WHERE home_region = $1::crdb_internal_region AND id = $2::text
