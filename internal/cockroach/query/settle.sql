-- name: settle
-- An attempt ended for good, or with "not now": the claim, its response, the end
-- of its outbox row and the audit in one statement, one round trip. It changes
-- nothing unless the claim is still the one that the holder was given.
WITH settled AS (
    UPDATE claims SET
        state = $7::int2, holder = '', reason = $8::text, unknowns = $9::int4, not_founds = $10::int4,
        provider_ref = $11::text, settled_at = CASE WHEN $12::bool THEN now() END,
        removable_at = greatest($13::timestamptz, now() + $14::interval), step = $15::uuid
    WHERE home_region = $1::crdb_internal_region AND tenant_id = $2::text AND idem_key = $3::text
      AND object_id = $4::text AND fence = $5::int8 AND unknowns = $6::int4 AND state = 1
    RETURNING tenant_id, idem_key, object_id, lease_until, removable_at
), answered AS (
    INSERT INTO responses (home_region, tenant_id, object_id, status, header_names, header_values, body, blob, removable_at)
    SELECT $1::crdb_internal_region, tenant_id, object_id, $16::int2, $17::text[], $18::bytea[], $19::bytea, $20::text, removable_at
    FROM settled
    WHERE $12::bool
    RETURNING responses.home_region
), finished AS (
    DELETE FROM outbox
    WHERE home_region = $1::crdb_internal_region AND id IN (SELECT object_id FROM settled)
    RETURNING outbox.home_region
), noted AS (
    INSERT INTO audit (
        home_region, tenant_id, idem_key, at, id, event, region, node, fence, generation, detail)
    SELECT $1::crdb_internal_region, s.tenant_id, s.idem_key, now(), a.id, a.event, $21::text, $22::text, $5::int8, $23::int4, a.detail
    FROM settled AS s, (VALUES ($24::uuid, $25::text, $26::text), ($27::uuid, $28::text, $29::text)) AS a (id, event, detail)
    RETURNING audit.home_region
)
SELECT now(), lease_until FROM settled
