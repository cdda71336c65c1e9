-- name: take_over
-- A lapsed claim gets a new holder; its outbox row waits for the new lease.
WITH taken AS (
    UPDATE claims SET
        fence = $5::int8, holder = $6::text, lease_until = $7::timestamptz, held_since = $8::timestamptz,
        attempts = $9::int4, step = $10::uuid
    WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text
      AND step = $4::uuid AND object_id = $16::text
    RETURNING tenant_id, idem_key, object_id, fence, generation, lease_until
), put_off AS (
    UPDATE outbox SET due = taken.lease_until
    FROM taken
    WHERE outbox.home_region = $1::crdb_internal_region AND outbox.id = taken.object_id{{ if .PlansAreKept }} AND outbox.id = $16::text{{ end }}
    RETURNING outbox.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT $1::crdb_internal_region, tenant_id, idem_key, $8::timestamptz, $11::uuid, $12::text, $13::text, $14::text, fence, generation, $15::text
    FROM taken
    RETURNING audit.home_region
)
SELECT fence FROM taken
