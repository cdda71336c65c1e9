-- name: object
-- One claim by the id of its object, of one tenant or, if that is '', of any: with authority,
-- with its response, and the clock it is to be judged by. NULLs for none.
SELECT now(), c.tenant_id, c.idem_key, c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal, c.interim, c.canceled_at, c.reverses,
       c.answer_status, c.answer_header, c.answer_body, c.answer_blob, c.answer_replay_for
FROM (SELECT 1) AS one
LEFT JOIN claims AS c
    ON c.home_region = @home::crdb_internal_region AND c.object_id = @object_id::text AND @tenant_id::text IN ('', c.tenant_id)
