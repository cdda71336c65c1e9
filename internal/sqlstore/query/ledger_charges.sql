-- name: ledger_charges
-- One page of a tenant's charges in a region's books, from either end, in any order. Its rows are
-- found by what the index has, which is walked from one end: the other part reads nothing.
-- PostgreSQL sees by the first comparison alone that created is not null.
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM (
    (SELECT p.id
     FROM ledger AS p
     WHERE @latest::bool AND p.home_region = @home::crdb_internal_region AND p.tenant_id = @tenant_id::text
       AND p.created >= @after::timestamptz AND (p.created, p.id) > (@after::timestamptz, @after_id::text)
       AND (p.created, p.id) < (coalesce(@before::timestamptz, 'infinity'::timestamptz), @before_id::text)
     ORDER BY p.created DESC, p.id DESC
     LIMIT @limit::int8)
    UNION ALL
    (SELECT p.id
     FROM ledger AS p
     WHERE NOT @latest::bool AND p.home_region = @home::crdb_internal_region AND p.tenant_id = @tenant_id::text
       AND p.created >= @after::timestamptz AND (p.created, p.id) > (@after::timestamptz, @after_id::text)
       AND (p.created, p.id) < (coalesce(@before::timestamptz, 'infinity'::timestamptz), @before_id::text)
     ORDER BY p.created, p.id
     LIMIT @limit::int8)
) AS f
JOIN ledger AS l ON l.home_region = @home::crdb_internal_region AND l.id = f.id
