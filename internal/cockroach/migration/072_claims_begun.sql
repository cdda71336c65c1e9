-- The first line of audit of a claim, in the claim's own row, until its first settlement
-- writes it into audit with the settlement's own lines, in one row. Its time is first_use,
-- its detail operation, and its event, fence and generation are those of a first claim.
ALTER TABLE claims
    ADD COLUMN IF NOT EXISTS begun_id uuid,
    ADD COLUMN IF NOT EXISTS begun_region text,
    ADD COLUMN IF NOT EXISTS begun_node text,
    -- the step of that settlement; NULL while the line is only here
    ADD COLUMN IF NOT EXISTS begun_noted uuid;
