-- name: timeline
-- The last rows of a key's audit, and what its claim's row has of it: the first line of a
-- claim that is not settled.
(SELECT at, id, event, region, node, fence, generation, detail, attempt_id, attempt_event, attempt_detail, begun_id, begun_at, begun_region, begun_node, begun_detail
 FROM audit
 WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text
 ORDER BY at DESC, id DESC
 LIMIT @limit::int8)
UNION ALL
SELECT first_use, begun_id, 'claimed', begun_region, begun_node, 1, 1, operation, NULL::uuid, NULL::text, NULL::text, NULL::uuid, NULL::timestamptz, NULL::text, NULL::text, NULL::text
FROM claims
WHERE home_region = @home::crdb_internal_region AND tenant_id = @tenant_id::text AND idem_key = @idem_key::text AND begun_id IS NOT NULL AND begun_noted IS NULL
