-- Who decided what a person did, and why; '' for all else. Nodes of the version before
-- write neither, and book nothing that a person decided.
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS decided_by text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS decided_why text NOT NULL DEFAULT '';
