-- The books; see ledger.Transaction. One row is one transaction with both its
-- halves, so that none can be there without the other; debits are above zero,
-- credits below, and the two sum to zero. Kept for ever: nodes have no right to
-- change or delete a row.
CREATE TABLE IF NOT EXISTS ledger (
    home_region    crdb_internal_region NOT NULL,
    -- names the business event: a second posting of it is refused
    id             text{{ if not .Cockroach }} COLLATE "C"{{ end }} NOT NULL,
    tenant_id      text NOT NULL,
    kind           text NOT NULL,
    at             timestamptz NOT NULL,
    debit_account  text{{ if not .Cockroach }} COLLATE "C"{{ end }} NOT NULL,
    debit_amount   int8 NOT NULL,
    credit_account text{{ if not .Cockroach }} COLLATE "C"{{ end }} NOT NULL,
    credit_amount  int8 NOT NULL,
    currency       text{{ if not .Cockroach }} COLLATE "C"{{ end }} NOT NULL,
    object_id      text NOT NULL,
    -- the id of the transaction that this one takes back, or ''
    reverses       text NOT NULL,
    provider       text NOT NULL,
    provider_ref   text NOT NULL,
    PRIMARY KEY (home_region, id),
    CONSTRAINT ledger_balanced CHECK (debit_amount > 0 AND debit_amount + credit_amount = 0),
    CONSTRAINT ledger_two_accounts CHECK (debit_account <> credit_account)
){{ if .Cockroach }} LOCALITY REGIONAL BY ROW AS home_region{{ end }};
