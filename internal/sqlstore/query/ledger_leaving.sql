-- name: ledger_leaving
-- Of these transactions, those that may leave with all that belongs to them and is older: a charge
-- or a transfer with its refunds, a fee, a conversion. forget_books asks the same.
WITH heads AS (
    SELECT f.id
    FROM ledger AS p
    JOIN ledger AS f ON f.home_region = @home::crdb_internal_region AND f.id = CASE WHEN p.reverses = '' THEN p.id ELSE p.reverses END
    WHERE p.home_region = @home::crdb_internal_region AND p.id = ANY (@ids::text[])
      AND f.kind IN ('charge', 'transfer', 'fee', 'fee_refund', 'conversion') AND (f.at, f.id) <= (p.at, p.id)
      -- What is younger decides later. What else reverses it stays, and it with that.
      AND NOT EXISTS (
          SELECT 1 FROM regions AS g
          JOIN ledger AS r ON r.home_region = g.name AND r.reverses = f.id AND r.reverses <> ''
          WHERE r.home_region <> @home::crdb_internal_region OR r.kind <> 'refund' OR (r.at, r.id) > (p.at, p.id))
      AND NOT EXISTS (
          SELECT 1 FROM ledger AS r
          CROSS JOIN regions AS g
          JOIN ledger AS b ON b.home_region = g.name AND b.reverses = r.id AND b.reverses <> ''
          WHERE r.home_region = @home::crdb_internal_region AND r.reverses = f.id AND r.reverses <> '')
      AND NOT EXISTS (
          SELECT 1 FROM ledger AS o
          WHERE o.home_region = @home::crdb_internal_region AND o.object_id = f.object_id AND o.kind NOT IN ('charge', 'transfer', 'refund')
            AND o.kind NOT IN ('fee', 'fee_refund', 'conversion'))
      AND (f.kind NOT IN ('charge', 'transfer') OR NOT EXISTS (
          SELECT 1 FROM unpaid AS u WHERE u.home_region = @home::crdb_internal_region AND u.object_id = f.object_id
            AND u.removable_at > now()))
)
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM heads AS h JOIN ledger AS l ON l.home_region = @home::crdb_internal_region AND l.id = h.id
UNION ALL
SELECT l.home_region, l.id, l.tenant_id, l.kind, l.at, l.debit_account, l.credit_account, l.debit_amount,
       l.currency, l.object_id, l.reverses, l.provider, l.provider_ref, l.decided_by, l.decided_why, l.created, l.order_id, l.metadata
FROM heads AS h JOIN ledger AS l ON l.home_region = @home::crdb_internal_region AND l.reverses = h.id AND l.reverses <> ''
