-- The provider call of a claim in flight, in the claim's own row: a row, its index entries
-- and a look-up less for each of a claim's steps. All NULL where there is none. A node of
-- before, which knows none of these columns, leaves them behind when it settles the claim
-- or begins it anew: so a call counts only while the claim is in flight, and not if it
-- is older than its life or its last refusal.
ALTER TABLE claims
    ADD COLUMN IF NOT EXISTS call_payload bytea,
    ADD COLUMN IF NOT EXISTS call_trace text,
    -- no earlier than first_use of the life that it is of
    ADD COLUMN IF NOT EXISTS call_created timestamptz,
    -- NULL while it is parked, which is since when it was due
    ADD COLUMN IF NOT EXISTS call_due timestamptz,
    ADD COLUMN IF NOT EXISTS call_parked timestamptz,
    ADD COLUMN IF NOT EXISTS call_fence int8,
    -- NULL for none
    ADD COLUMN IF NOT EXISTS call_attempts int4,
    ADD COLUMN IF NOT EXISTS call_error text;
