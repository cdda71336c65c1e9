-- The schema of Homeward 0.1 on CockroachDB. ../postgresql has the same tables in the same
-- order. A later migration is a file of its own, with the same name in both directories;
-- CONTRIBUTING.md, "A migration", has the rules.
--
-- Schema changes share no transaction here. A migrator that is stopped, or that meets another,
-- runs the file again: so each statement may be done already.
--
-- Almost every table begins with the region of its rows, which is also its partition: REGIONAL
-- BY ROW. What every region reads and few write is GLOBAL. The database makes the type
-- crdb_internal_region with its first region. Times are the database's own now().
--
-- An index whose entries begin with a time would only ascend, and CockroachDB cannot split such a
-- range by load. So a hash of the row's id, the shard, comes before the time. A statement does not
-- name the shard: with the CHECK the database knows its 16 values, reads the first rows of each, and
-- merges them in order. It does that for constants and for what the index has, so the store has such
-- statements planned for each run, and they look up the rest by key. The shard is stored: with a
-- virtual column, who inserts unless the row is there reads the table instead of the key. Such an
-- index is partial by IS NOT NULL at most: by another condition the database sorts all rows instead.
--
-- What a queue has deleted stays in the way of who looks for its first row, until the garbage
-- collector comes: after ten minutes, and not after the default of four hours.
--
-- Statistics of tables that grow are injected and kept. Statements look rows up by their keys, however
-- few there are: where statistics say that a table is small, CockroachDB reads all of a region's
-- rows to join them with a batch's, or to sort them for a page, and goes on while the table grows,
-- until it looks again. It looks first when a table is new and has no row.
-- Those of a queue would also have it read what was deleted lately.
--
-- What a queue has deleted is in the way of who looks for its first row until it is collected as
-- garbage: after ten minutes here. After the default of four hours a queue of a hundred rows a
-- second would have each look pass millions.

-- +goose Up
-- +goose NO TRANSACTION

---------------------------------------------------------------------------------------------------
-- The deployment
---------------------------------------------------------------------------------------------------

-- The topology. A code stands in keys and object ids permanently: rows are marked down, never
-- deleted, and codes are never reused.
CREATE TABLE IF NOT EXISTS regions (
    name   crdb_internal_region NOT NULL PRIMARY KEY,
    code   int4 NOT NULL UNIQUE CHECK (code BETWEEN 1 AND 65535),
    -- 0 active, 1 draining, 2 down
    status int2 NOT NULL DEFAULT 0,
    -- counts the changes of the whole table: a change sets max(epoch) + 1
    epoch  int8 NOT NULL DEFAULT 1
) LOCALITY GLOBAL;

-- Which deployment the rows are of: one row, made once, with a random id that never changes. A
-- copy and a restored backup keep it.
CREATE TABLE IF NOT EXISTS deployment (
    singleton  bool NOT NULL PRIMARY KEY DEFAULT true CHECK (singleton),
    id         uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now()
) LOCALITY GLOBAL;
INSERT INTO deployment (singleton) VALUES (true) ON CONFLICT (singleton) DO NOTHING;

---------------------------------------------------------------------------------------------------
-- Tenants
---------------------------------------------------------------------------------------------------

-- The merchants. Every request reads its tenant, and operators write it, so each region has a
-- consistent copy and writes are slow.
CREATE TABLE IF NOT EXISTS tenants (
    id                 text NOT NULL PRIMARY KEY,
    name               text NOT NULL,
    registrar          crdb_internal_region NOT NULL,
    -- still read until the last of its pins is gone
    previous_registrar crdb_internal_region,
    registrar_moved_at timestamptz,
    rate_per_second    float8 NOT NULL DEFAULT 0,
    burst              int4 NOT NULL DEFAULT 0,
    created_at         timestamptz NOT NULL,
    -- what becomes of card numbers in free text
    card_numbers       text NOT NULL DEFAULT 'refuse'
        CONSTRAINT tenants_card_numbers CHECK (card_numbers IN ('refuse', 'mask', 'allow')),
    -- which provider its payments go to; see payment.Routes
    routes             text NOT NULL DEFAULT ''
) WITH (sql_stats_automatic_collection_enabled = false)
LOCALITY GLOBAL;
ALTER TABLE tenants INJECT STATISTICS '[
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000, "distinct_count": 1000}
]';

-- API keys by their SHA-256. A key is 256 random bits, so a plain hash is enough: nobody can
-- guess one, and there is no salt to read first.
CREATE TABLE IF NOT EXISTS api_keys (
    hash       bytea NOT NULL PRIMARY KEY,
    tenant_id  text NOT NULL REFERENCES tenants (id),
    created_at timestamptz NOT NULL,
    -- set when the key is rotated; NULL: it does not end
    expires_at timestamptz
) LOCALITY GLOBAL;

---------------------------------------------------------------------------------------------------
-- Keys and claims
---------------------------------------------------------------------------------------------------

-- Which region is home to an opaque key, in the partition of the tenant's registrar. With the
-- region in front, the primary key is checked in that partition only.
CREATE TABLE IF NOT EXISTS pins (
    registrar   crdb_internal_region NOT NULL,
    tenant_id   text NOT NULL,
    idem_key    text NOT NULL,
    home_region crdb_internal_region NOT NULL,
    -- when the home was fixed or last confirmed
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (registrar, tenant_id, idem_key)
) WITH (sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS registrar;
ALTER TABLE pins INJECT STATISTICS '[
    {"columns": ["registrar"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["tenant_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000},
    {"columns": ["idem_key"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]';

-- The row that owns a key; see claim.Record for what the columns mean.
CREATE TABLE IF NOT EXISTS claims (
    home_region         crdb_internal_region NOT NULL,
    tenant_id           text NOT NULL,
    idem_key            text NOT NULL,
    object_id           text NOT NULL,
    operation           text NOT NULL,
    fingerprint_version int2 NOT NULL,
    fingerprint         bytea NOT NULL,
    -- 1 in flight, 2 completed, 3 failed for good, 4 released
    state               int2 NOT NULL CHECK (state BETWEEN 1 AND 4),
    fence               int8 NOT NULL CHECK (fence > 0),
    holder              text NOT NULL,
    lease_until         timestamptz NOT NULL,
    held_since          timestamptz NOT NULL,
    first_use           timestamptz NOT NULL,
    created             timestamptz NOT NULL,
    receipt             text NOT NULL,
    generation          int4 NOT NULL,
    provider_key        text NOT NULL,
    attempts            int4 NOT NULL,
    unknowns            int4 NOT NULL,
    not_founds          int4 NOT NULL,
    reason              text NOT NULL,
    provider_ref        text NOT NULL,
    -- the charge that a merchant's refund gives back; NULL for all else
    reverses            text,
    settled_at          timestamptz,
    -- names the write that made this version of the row: who lost the reply to a write
    -- compares it to find out whether the write is done
    step                uuid NOT NULL,
    -- from when housekeeping may delete the row; NULL while an outcome is owed
    removable_at        timestamptz,

    -- How the latest released generation ended, for requests that were under way then; see
    -- claim.Refusal.
    refused_at          timestamptz,
    refusal             bytea,
    -- The answer while the payer has to act or a bank takes its time; see claim.Interim.
    interim             bytea,
    canceled_at         timestamptz,

    -- The final answer, which every retry reads; NULL before.
    answer_status       int2 CONSTRAINT claims_answer_sendable CHECK (answer_status BETWEEN 200 AND 599),
    answer_header       bytea,
    answer_body         bytea,
    -- names the body in the object store, when it is too large for the row
    answer_blob         text,
    -- for how long retries read it, in microseconds, if that is shorter than the deployment's window
    answer_replay_for   int8,

    -- The created_at of its latest events, which is their place in their line: later than that of
    -- the events before, even if the clock was set back.
    events_at           timestamptz,

    -- The provider call of a claim in flight: all NULL where there is none. It is in the
    -- claim's row since a row of its own would cost each step of a claim a row, its index
    -- entries and a look-up.
    call_payload        bytea,
    call_trace          text,
    call_created        timestamptz,
    -- NULL while it is parked; call_parked is then since when it was due
    call_due            timestamptz,
    call_parked         timestamptz,
    call_fence          int8,
    -- NULL for none
    call_attempts       int4,
    call_error          text,

    -- The claim's first line of audit, until its first settlement writes it into audit in one
    -- row with its own lines. Its time is first_use, its detail operation, and its event, fence
    -- and generation are those of a first claim.
    begun_id            uuid,
    begun_region        text,
    begun_node          text,
    -- the step of that settlement; NULL while the line is only here
    begun_noted         uuid,

    -- The call's part of claims_calls; see the top.
    shard               int2 NOT NULL NOT VISIBLE AS (mod(fnv32(object_id), 16)::int2) STORED CHECK (shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),

    PRIMARY KEY (home_region, tenant_id, idem_key),
    -- Finds a claim by the id of its object, whichever tenant has it: a provider does not know our
    -- tenants.
    UNIQUE INDEX claims_by_object_id (home_region, object_id),
    -- In the order in which workers take calls: FOR UPDATE SKIP LOCKED locks what it scans, so the
    -- index must deliver exactly the rows that a worker takes. The queues below have the same.
    INDEX claims_calls (home_region, shard, call_due, object_id) WHERE call_due IS NOT NULL,
    INDEX claims_calls_parked (home_region, object_id) WHERE call_parked IS NOT NULL,
    -- Finds a charge's refunds in flight. A charge writes nothing to it.
    INDEX claims_reversing (home_region, reverses) WHERE reverses IS NOT NULL AND state = 1
) WITH (ttl_expiration_expression = 'removable_at', ttl_job_cron = '@hourly', sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS home_region;
ALTER TABLE claims INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["idem_key"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["tenant_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000},
    {"columns": ["object_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["call_due"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 500000, "null_count": 500000},
    {"columns": ["call_parked"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 10, "null_count": 999990},
    {"columns": ["reverses"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 100000, "null_count": 900000}
]';
ALTER INDEX claims@claims_calls CONFIGURE ZONE USING gc.ttlseconds = 600;

-- Claims for people and reports: without answers, and without what is asked of a provider.
CREATE VIEW IF NOT EXISTS claim_states AS
SELECT home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint, state, fence, holder,
       lease_until, held_since, first_use, created, receipt, generation, attempts, unknowns, not_founds, reason, provider_ref,
       settled_at, refused_at, removable_at, answer_status, call_due, call_parked, call_attempts
FROM claims;

-- Which tenant had an object for which no money moved; see claim.Unpaid. The row outlives the
-- claim, which is deleted two days after its first use, since a provider may report a success
-- later. It is in a table of its own so that no TTL job of claims and no reconciliation reads
-- it.
CREATE TABLE IF NOT EXISTS unpaid (
    home_region  crdb_internal_region NOT NULL,
    object_id    text NOT NULL,
    tenant_id    text NOT NULL,
    operation    text NOT NULL,
    -- 3 failed for good, 4 released, as in claims
    state        int2 NOT NULL CHECK (state IN (3, 4)),
    reason       text NOT NULL,
    at           timestamptz NOT NULL,
    -- from when housekeeping may delete the row
    removable_at timestamptz NOT NULL,
    PRIMARY KEY (home_region, object_id)
) WITH (ttl_expiration_expression = 'removable_at', ttl_job_cron = '@daily', sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS home_region;
ALTER TABLE unpaid INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["object_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]';

---------------------------------------------------------------------------------------------------
-- The outbox: what must still happen; see outbox.Message. Each queue is a table, so that a flood
-- in one delays no other, and since one statement may write to several, which CockroachDB refuses
-- for one table. Calls to providers are in claims.
---------------------------------------------------------------------------------------------------

-- What has happened to objects, for sinks; see outbox.Events.
CREATE TABLE IF NOT EXISTS events (
    home_region  crdb_internal_region NOT NULL,
    id           text NOT NULL,
    kind         text NOT NULL,
    tenant_id    text NOT NULL,
    idem_key     text NOT NULL,
    operation    text NOT NULL,
    payload      bytea NOT NULL,
    trace_parent text NOT NULL,
    created_at   timestamptz NOT NULL,
    -- NULL while the row is parked
    due          timestamptz,
    fence        int8 NOT NULL,
    attempts     int4 NOT NULL DEFAULT 0,
    last_error   text NOT NULL DEFAULT '',
    -- Its part of an index on times; see the top.
    shard        int2 NOT NULL NOT VISIBLE AS (mod(fnv32(id), 16)::int2) STORED CHECK (shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    -- The rows of a key are together: a row waits for those that came before it.
    PRIMARY KEY (home_region, tenant_id, idem_key, id),
    INDEX events_due (home_region, shard, due, id) WHERE due IS NOT NULL,
    INDEX events_parked (home_region, id) WHERE due IS NULL
) WITH (sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS home_region;
ALTER TABLE events INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["tenant_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000},
    {"columns": ["idem_key"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]';
ALTER TABLE events CONFIGURE ZONE USING gc.ttlseconds = 600;

-- Released claims, due when they stop being payable; see outbox.Expiries.
CREATE TABLE IF NOT EXISTS expiries (
    home_region  crdb_internal_region NOT NULL,
    id           text NOT NULL,
    kind         text NOT NULL,
    tenant_id    text NOT NULL,
    idem_key     text NOT NULL,
    operation    text NOT NULL,
    payload      bytea NOT NULL,
    trace_parent text NOT NULL,
    created_at   timestamptz NOT NULL,
    -- NULL while the row is parked
    due          timestamptz,
    fence        int8 NOT NULL,
    attempts     int4 NOT NULL DEFAULT 0,
    last_error   text NOT NULL DEFAULT '',
    -- Its part of an index on times; see the top.
    shard        int2 NOT NULL NOT VISIBLE AS (mod(fnv32(id), 16)::int2) STORED CHECK (shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    PRIMARY KEY (home_region, id),
    INDEX expiries_due (home_region, shard, due, id) WHERE due IS NOT NULL,
    INDEX expiries_parked (home_region, id) WHERE due IS NULL
) WITH (sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS home_region;
ALTER TABLE expiries INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]';
ALTER TABLE expiries CONFIGURE ZONE USING gc.ttlseconds = 600;

-- Notices that are to be processed; see outbox.Notices.
CREATE TABLE IF NOT EXISTS notices_due (
    home_region  crdb_internal_region NOT NULL,
    id           text NOT NULL,
    kind         text NOT NULL,
    tenant_id    text NOT NULL,
    idem_key     text NOT NULL,
    operation    text NOT NULL,
    payload      bytea NOT NULL,
    trace_parent text NOT NULL,
    created_at   timestamptz NOT NULL,
    -- NULL while the row is parked
    due          timestamptz,
    fence        int8 NOT NULL,
    attempts     int4 NOT NULL DEFAULT 0,
    last_error   text NOT NULL DEFAULT '',
    -- Its part of an index on times; see the top.
    shard        int2 NOT NULL NOT VISIBLE AS (mod(fnv32(id), 16)::int2) STORED CHECK (shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    PRIMARY KEY (home_region, id),
    INDEX notices_due_due (home_region, shard, due, id) WHERE due IS NOT NULL,
    INDEX notices_due_parked (home_region, id) WHERE due IS NULL
) WITH (sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS home_region;
ALTER TABLE notices_due INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]';
ALTER TABLE notices_due CONFIGURE ZONE USING gc.ttlseconds = 600;

---------------------------------------------------------------------------------------------------
-- Money
---------------------------------------------------------------------------------------------------

-- The books; see ledger.Transaction. One row is one transaction with both its halves, so that
-- neither exists without the other; debits are above zero, credits below, and the two sum to
-- zero. Nodes have no right to change or delete a row.
CREATE TABLE IF NOT EXISTS ledger (
    home_region    crdb_internal_region NOT NULL,
    -- names the business event: a second posting of it is refused
    id             text NOT NULL,
    tenant_id      text NOT NULL,
    kind           text NOT NULL,
    at             timestamptz NOT NULL,
    debit_account  text NOT NULL,
    debit_amount   int8 NOT NULL,
    credit_account text NOT NULL,
    credit_amount  int8 NOT NULL,
    currency       text NOT NULL,
    object_id      text NOT NULL,
    -- the id of the transaction that this one reverses, or ''
    reverses       text NOT NULL,
    provider       text NOT NULL,
    provider_ref   text NOT NULL,
    -- who decided what a person did, and why; '' for all else
    decided_by     text NOT NULL DEFAULT '',
    decided_why    text NOT NULL DEFAULT '',
    -- when a charge was created, as its merchant reads it; NULL for all else
    created        timestamptz,
    -- what the merchant sent with the charge or the transfer; NULL for none. The metadata is JSON
    order_id       text,
    metadata       text,
    -- Its part of the indexes on times, and of ledger_orders, as orders are numbered; see the top.
    shard          int2 NOT NULL NOT VISIBLE AS (mod(fnv32(id), 16)::int2) STORED CHECK (shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    PRIMARY KEY (home_region, id),
    CONSTRAINT ledger_balanced CHECK (debit_amount > 0 AND debit_amount + credit_amount = 0),
    CONSTRAINT ledger_two_accounts CHECK (debit_account <> credit_account),
    -- The order in which the books are read.
    INDEX ledger_at (home_region, shard, at, id),
    -- A merchant's charges, by when they were created, and those of an order. Of an index that is
    -- partial by another condition the database would read all, and sort.
    INDEX ledger_charges (home_region, tenant_id, shard, created, id) WHERE created IS NOT NULL,
    INDEX ledger_orders (home_region, tenant_id, shard, order_id, created, id) WHERE order_id IS NOT NULL,
    -- Finds what reverses a transaction.
    INDEX ledger_reverses (home_region, reverses) WHERE reverses <> '',
    -- Money that came in is one thing, whatever it was booked as: see ledger.Transaction.Incoming.
    UNIQUE INDEX ledger_incoming (home_region, provider, provider_ref)
        WHERE kind IN ('charge', 'ghost') AND provider_ref <> '',
    -- Finds what may have to go back at one provider. A charge writes nothing to it.
    INDEX ledger_ghosts (home_region, provider, id) WHERE kind = 'ghost',
    -- Finds what is about a charge, for people who ask what became of it: ghosts, disputes,
    -- failures, fees. A charge, a transfer and a refund write nothing to it.
    INDEX ledger_about (home_region, object_id) WHERE kind NOT IN ('charge', 'transfer', 'refund')
) WITH (sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS home_region;
-- As if a merchant had thousands of charges, and many of one order: else a page reads all, and sorts.
ALTER TABLE ledger INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["tenant_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 100},
    {"columns": ["object_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 900000},
    {"columns": ["at"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["created"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 800000, "null_count": 200000},
    {"columns": ["order_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 2, "null_count": 400000},
    {"columns": ["reverses"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 10000},
    {"columns": ["provider"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 10},
    {"columns": ["provider_ref"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]';

-- The books as accountants read them: two entries to a transaction.
CREATE VIEW IF NOT EXISTS ledger_entries AS
SELECT home_region, id, at, debit_account AS account, currency, debit_amount AS amount, kind, tenant_id, object_id, reverses, provider, provider_ref
FROM ledger
UNION ALL
SELECT home_region, id, at, credit_account, currency, credit_amount, kind, tenant_id, object_id, reverses, provider, provider_ref
FROM ledger;

-- The balances of the transactions that have left the books for the audit's bucket; see
-- audit.Store. Nodes have no right to change a row: forget_books does, in the step that deletes
-- the transactions.
CREATE TABLE IF NOT EXISTS ledger_carried (
    home_region  crdb_internal_region NOT NULL,
    account      text NOT NULL,
    currency     text NOT NULL,
    debits       int8 NOT NULL,
    credits      int8 NOT NULL,
    transactions int8 NOT NULL,
    PRIMARY KEY (home_region, account, currency)
) LOCALITY REGIONAL BY ROW AS home_region;

-- What providers reported, as they sent it; see notice.Notice. The id is the provider's, so that
-- an event which it repeats has one row.
CREATE TABLE IF NOT EXISTS notices (
    home_region  crdb_internal_region NOT NULL,
    id           text NOT NULL,
    provider     text NOT NULL,
    body         bytea NOT NULL,
    received_at  timestamptz NOT NULL,
    -- NULL while status is UNPROCESSED
    processed_at timestamptz,
    status       text NOT NULL,
    detail       text NOT NULL,
    trace_parent text NOT NULL,
    -- from when housekeeping may delete the row; NULL while it is to be processed
    removable_at timestamptz,
    -- Its part of notices_bodied; see the top.
    shard        int2 NOT NULL NOT VISIBLE AS (mod(fnv32(id), 16)::int2) STORED CHECK (shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    PRIMARY KEY (home_region, id),
    -- Housekeeping finds here the bodies that nobody needs any more; see notice.KeepBodyFor.
    INDEX notices_bodied (home_region, shard, processed_at) WHERE processed_at IS NOT NULL AND length(body) > 0
) WITH (ttl_expiration_expression = 'removable_at', ttl_job_cron = '@hourly', sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS home_region;
ALTER TABLE notices INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["processed_at"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 900000, "null_count": 100000}
]';

---------------------------------------------------------------------------------------------------
-- Audit and restores
---------------------------------------------------------------------------------------------------

-- Everything that happened to a claim, for 400 days: a year and a month, which is longer than a
-- card payment can be disputed. Nodes have no right to change or delete a row; the two functions
-- below delete some.
CREATE TABLE IF NOT EXISTS audit (
    home_region    crdb_internal_region NOT NULL,
    tenant_id      text NOT NULL,
    idem_key       text NOT NULL,
    at             timestamptz NOT NULL,
    -- UUIDv7: orders what one statement, or one node, wrote
    id             uuid NOT NULL,
    event          text NOT NULL,
    region         text NOT NULL,
    node           text NOT NULL,
    fence          int8 NOT NULL,
    generation     int4 NOT NULL,
    detail         text NOT NULL,
    -- A settlement's row has further lines; NULL where there is none. The attempt's has the
    -- same time, place, fence and generation.
    attempt_id     uuid,
    attempt_event  text,
    attempt_detail text,
    -- The line that began the claim is of the first fence and generation.
    begun_id       uuid,
    begun_at       timestamptz,
    begun_region   text,
    begun_node     text,
    begun_detail   text,
    PRIMARY KEY (home_region, tenant_id, idem_key, at, id)
) WITH (ttl_expiration_expression = '((at AT TIME ZONE ''utc'') + INTERVAL ''400 days'') AT TIME ZONE ''utc''', ttl_job_cron = '@daily', sql_stats_automatic_collection_enabled = false)
LOCALITY REGIONAL BY ROW AS home_region;
ALTER TABLE audit INJECT STATISTICS '[
    {"columns": ["home_region"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 3},
    {"columns": ["tenant_id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000},
    {"columns": ["idem_key"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 500000},
    {"columns": ["at"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000},
    {"columns": ["id"], "created_at": "2026-01-01 00:00:00", "row_count": 1000000, "distinct_count": 1000000}
]';

-- How far the audit of a region is exported; see audit.Chain. A row for each region, which each
-- segment changes.
CREATE TABLE IF NOT EXISTS audit_chains (
    home_region  crdb_internal_region NOT NULL PRIMARY KEY,
    version      int8 NOT NULL,
    -- the last segment
    number       int8 NOT NULL,
    digest       text NOT NULL,
    -- the window that is being exported, and how far in it
    from_at      timestamptz NOT NULL,
    to_at        timestamptz,
    part         int4 NOT NULL,
    after_tenant text NOT NULL,
    after_key    text NOT NULL,
    after_at     timestamptz,
    after_id     text NOT NULL,
    -- until when rows were looked for in segments, and deleted
    swept_until  timestamptz,
    -- up to which transaction the books have left
    books_at     timestamptz,
    books_id     text NOT NULL
) LOCALITY REGIONAL BY ROW AS home_region;

-- The one way in which a node deletes audit, whose table it may neither update nor delete from:
-- rows each line of which is in a segment, by the node's word, and that are three days old
-- (audit.MinKeepRows) and of keys whose claim says nothing any more, by the database's. Returns
-- how many lines each row had. It has neither a WITH nor a cast to a type of the database, where
-- CockroachDB does not find arguments.
CREATE OR REPLACE FUNCTION forget_audit(p_home crdb_internal_region, p_tenants text[], p_keys text[], p_ats timestamptz[], p_ids uuid[])
RETURNS SETOF int8 LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    DELETE FROM audit AS a
    USING unnest(p_tenants, p_keys, p_ats, p_ids) AS g (tenant_id, idem_key, at, id)
    WHERE a.home_region = p_home
      AND a.tenant_id = g.tenant_id AND a.idem_key = g.idem_key AND a.at = g.at AND a.id = g.id
      AND a.at <= pg_catalog.now() - INTERVAL '3 days'
      AND coalesce(a.attempt_id = ANY (p_ids), true)
      AND coalesce(a.begun_id = ANY (p_ids), true)
      AND NOT EXISTS (
          SELECT 1 FROM claims AS c
          WHERE c.home_region = p_home AND c.tenant_id = g.tenant_id AND c.idem_key = g.idem_key
            AND (c.removable_at IS NULL OR c.removable_at > pg_catalog.now()))
    RETURNING (1 + CASE WHEN a.attempt_id IS NULL THEN 0 ELSE 1 END + CASE WHEN a.begun_id IS NULL THEN 0 ELSE 1 END)::int8
$$;

-- Deletes rows of audit after the 400 days, at most p_limit, and returns a one for each.
-- Row-level TTL does it here; nodes execute it on PostgreSQL.
CREATE OR REPLACE FUNCTION expire_audit(p_limit int8)
RETURNS SETOF int8 LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
    DELETE FROM audit AS a
    USING (SELECT home_region, tenant_id, idem_key, at, id FROM audit WHERE at <= pg_catalog.now() - INTERVAL '400 days' LIMIT p_limit) AS g
    WHERE a.home_region = g.home_region AND a.tenant_id = g.tenant_id AND a.idem_key = g.idem_key AND a.at = g.at AND a.id = g.id
    RETURNING 1::int8
$$;

-- The one way in which a node deletes transactions, in the step that makes their segment the
-- chain's last and carries their sums forward. By the node's word they are in that segment. By the
-- database's they are 400 days old (audit.MinKeepBooks), of kinds that are common, and nothing that
-- stays belongs to them: no reversal in any region, nothing else about their object, no refusal of
-- it that is remembered. Changes nothing, and returns false, if one is not, or if the chain has
-- moved.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_books(p_home crdb_internal_region, p_was int8, p_number int8, p_digest text, p_at timestamptz, p_id text, p_ids text[])
RETURNS bool LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    v_n int8;
BEGIN
    SELECT count(*) INTO v_n
    FROM ledger AS l
    WHERE l.home_region = p_home AND l.id = ANY (p_ids) AND l.at <= pg_catalog.now() - INTERVAL '400 days'
      AND l.kind IN ('charge', 'transfer', 'refund', 'fee', 'fee_refund', 'conversion')
      AND (l.reverses = '' OR l.reverses = ANY (p_ids))
      AND NOT EXISTS (
          SELECT 1 FROM regions AS g
          JOIN ledger AS r ON r.home_region = g.name AND r.reverses = l.id AND r.reverses <> ''
          WHERE r.home_region <> p_home OR r.id <> ALL (p_ids))
      AND (l.kind = 'refund' OR NOT EXISTS (
          SELECT 1 FROM ledger AS o
          WHERE o.home_region = p_home AND o.object_id = l.object_id AND o.kind NOT IN ('charge', 'transfer', 'refund')
            AND o.kind NOT IN ('fee', 'fee_refund', 'conversion')))
      AND (l.kind NOT IN ('charge', 'transfer') OR NOT EXISTS (
          SELECT 1 FROM unpaid AS u WHERE u.home_region = p_home AND u.object_id = l.object_id AND u.removable_at > pg_catalog.now()));
    IF v_n <> cardinality(p_ids) THEN
        RETURN false;
    END IF;
    v_n := NULL;
    UPDATE audit_chains SET version = version + 1, number = p_number, digest = p_digest, books_at = p_at, books_id = p_id
    WHERE home_region = p_home AND version = p_was
    RETURNING version INTO v_n;
    IF v_n IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO ledger_carried AS c (home_region, account, currency, debits, credits, transactions)
    SELECT p_home, e.account, e.currency, sum(e.debit)::int8, sum(e.credit)::int8, count(*)
    FROM (
        SELECT l.debit_account AS account, l.currency, l.debit_amount AS debit, 0::int8 AS credit
        FROM ledger AS l WHERE l.home_region = p_home AND l.id = ANY (p_ids)
        UNION ALL
        SELECT l.credit_account, l.currency, 0::int8, -l.credit_amount
        FROM ledger AS l WHERE l.home_region = p_home AND l.id = ANY (p_ids)
    ) AS e
    GROUP BY e.account, e.currency
    ON CONFLICT (home_region, account, currency) DO UPDATE SET
        debits = c.debits + excluded.debits, credits = c.credits + excluded.credits, transactions = c.transactions + excluded.transactions;
    -- A refusal is remembered no longer than its booking: alone it would look like the last word.
    DELETE FROM unpaid AS u WHERE u.home_region = p_home AND u.removable_at <= pg_catalog.now()
      AND u.object_id IN (SELECT l.object_id FROM ledger AS l WHERE l.home_region = p_home AND l.id = ANY (p_ids));
    DELETE FROM ledger AS l WHERE l.home_region = p_home AND l.id = ANY (p_ids);
    RETURN true;
END
$$;
-- +goose StatementEnd

-- Small documents of JSON, each changed by comparing its version: what stops automatic refunds
-- (kind brake, see notice.Brake; one for each provider, and one with the name '' for all), which
-- account each provider's name stands for (kind account, see package account), where a tenant's
-- webhooks go (kind endpoint, see relay.Endpoint; its secrets sign, so they are sealed and not
-- hashed), that the rows are those of a backup, and which time they lack (kind restore, see
-- claim.Restore; one, once there was a restore), and the longest windows that keys were promised
-- (kind windows; one, see package documents). Nodes read these two when they start; each delivery
-- reads its endpoint, in every region. None is ever deleted, so a version is never reached twice.
CREATE TABLE IF NOT EXISTS documents (
    kind    text NOT NULL,
    name    text NOT NULL,
    version int8 NOT NULL,
    -- which write made the version
    step    uuid NOT NULL,
    state   bytea NOT NULL,
    PRIMARY KEY (kind, name)
) LOCALITY GLOBAL;

-- What segments and providers say of claims that a restore has lost; see claim.Witness. Nodes
-- read it while a restore stands; it is empty otherwise.
CREATE TABLE IF NOT EXISTS witnesses (
    tenant_id text NOT NULL,
    idem_key  text NOT NULL,
    -- JSON
    state     bytea NOT NULL,
    PRIMARY KEY (tenant_id, idem_key)
) LOCALITY GLOBAL;
