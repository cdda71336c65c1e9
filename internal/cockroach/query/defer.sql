-- name: defer
-- An attempt ended without an outcome: the claim stays in flight, nobody's, and
-- the outbox owns it from when the pause is over. Either the count of unknowns rises,
-- or the fence: what it compares does not hold a second time.
WITH deferred AS (
    UPDATE claims SET
        holder = '', fence = $21::int8, reason = $7::text, unknowns = $8::int4, not_founds = $9::int4,
        lease_until = now() + $10::interval, step = $11::uuid
    WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text
      AND object_id = $4::text AND fence = $5::int8 AND unknowns = $6::int4 AND state = 1
    RETURNING tenant_id, idem_key, object_id, lease_until
), put_off AS (
    UPDATE outbox SET due = deferred.lease_until
    FROM deferred
    WHERE outbox.home_region = $1::crdb_internal_region AND outbox.id = deferred.object_id{{ if .PlansAreKept }} AND outbox.id = $4::text{{ end }}
    RETURNING outbox.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT $1::crdb_internal_region, d.tenant_id, d.idem_key, now(), a.id, a.event, $12::text, $13::text, a.fence, $14::int4, a.detail
    FROM deferred AS d, (VALUES ($15::uuid, $16::text, $17::text, $5::int8), ($18::uuid, $19::text, $20::text, $21::int8)) AS a (id, event, detail, fence)
    RETURNING audit.home_region
)
SELECT now(), lease_until FROM deferred
