-- name: find
-- The claims under some keys, with their responses, and the clock they are to be judged by:
-- a row for each key. It changes nothing, so that a key may be asked for twice.
--
-- Every n is between these bounds. They make PostgreSQL expect one row of arrays of unknown
-- length, and not ten: it would prefer a plan for the one row of a lone caller, and plan each
-- time anew.
SELECT k.n, now(), c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal, c.interim, c.canceled_at, c.reverses,
       c.answer_status, c.answer_header, c.answer_body, c.answer_blob, c.answer_replay_for
FROM unnest(@keys_n::int4[], @keys_tenant_id::text[], @keys_idem_key::text[]) AS k (n, tenant_id, idem_key)
LEFT JOIN claims AS c
    ON c.home_region = @home::crdb_internal_region AND c.tenant_id = k.tenant_id AND c.idem_key = k.idem_key
WHERE k.n BETWEEN 0 AND 1000000
