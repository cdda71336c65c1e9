-- Claims for people and reports: without answers, and without what is asked of a provider.
CREATE {{ if .Cockroach }}VIEW IF NOT EXISTS{{ else }}OR REPLACE VIEW{{ end }} claim_states AS
SELECT home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint, state, fence, holder,
       lease_until, held_since, first_use, created, receipt, generation, attempts, unknowns, not_founds, reason, provider_ref,
       settled_at, refused_at, removable_at, answer_status, call_due, call_parked, call_attempts
FROM claims;
