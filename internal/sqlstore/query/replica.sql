-- name: replica
-- What the nearest replica of their homes has of some keys: final answers, and pins of
-- those that are opaque, which have no code. A stamped key names its home, and an opaque
-- one's pin does, which its tenant's registrar keeps: no other region is looked at. Rows
-- are a few seconds old, which neither minds, and all of one moment: where an answer is
-- there its pin is, as a rule, and one that is missed costs a hop. The clock is today's. It
-- changes nothing, so that a key may be asked for twice.
SELECT a.n, clock_timestamp(), p.home_region, p.created_at, c.home_region, c.step, c.object_id, c.operation, c.fingerprint_version, c.fingerprint, c.state, c.fence, c.holder,
       c.lease_until, c.held_since, c.first_use, c.created, c.receipt, c.generation, c.provider_key,
       c.attempts, c.unknowns, c.not_founds, c.reason, c.provider_ref, c.settled_at, c.refused_at, c.refusal, c.interim, c.canceled_at, c.reverses,
       c.answer_status, c.answer_header, c.answer_body, c.answer_blob, c.answer_replay_for
FROM unnest(@keys_n::int4[], @keys_tenant_id::text[], @keys_idem_key::text[], @keys_code::int4[]) AS a (n, tenant_id, idem_key, code)
JOIN tenants AS t ON t.id = a.tenant_id AND a.n BETWEEN 0 AND 1000000 -- always: see find
JOIN regions AS g ON CASE WHEN a.code = 0 THEN g.name = t.registrar OR g.name = t.previous_registrar ELSE g.code = a.code END
LEFT JOIN pins AS p ON a.code = 0 AND p.registrar = g.name AND p.tenant_id = a.tenant_id AND p.idem_key = a.idem_key
LEFT JOIN claims AS c
    ON c.home_region = CASE WHEN a.code = 0 THEN p.home_region ELSE g.name END
   AND c.tenant_id = a.tenant_id AND c.idem_key = a.idem_key AND c.state IN (2, 3)
