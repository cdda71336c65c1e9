-- The books as accountants read them: two entries to a transaction.
CREATE {{ if .Cockroach }}VIEW IF NOT EXISTS{{ else }}OR REPLACE VIEW{{ end }} ledger_entries AS
SELECT home_region, id, at, debit_account AS account, currency, debit_amount AS amount, kind, tenant_id, object_id, reverses, provider, provider_ref
FROM ledger
UNION ALL
SELECT home_region, id, at, credit_account, currency, credit_amount, kind, tenant_id, object_id, reverses, provider, provider_ref
FROM ledger;
