-- A row of audit may have further lines than its own: a settlement's has the attempt's, which
-- has the same time, place, fence and generation, and the line that began the claim, of the
-- first fence and generation. NULL where there is none.
ALTER TABLE audit
    ADD COLUMN IF NOT EXISTS attempt_id uuid,
    ADD COLUMN IF NOT EXISTS attempt_event text,
    ADD COLUMN IF NOT EXISTS attempt_detail text,
    ADD COLUMN IF NOT EXISTS begun_id uuid,
    ADD COLUMN IF NOT EXISTS begun_at timestamptz,
    ADD COLUMN IF NOT EXISTS begun_region text,
    ADD COLUMN IF NOT EXISTS begun_node text,
    ADD COLUMN IF NOT EXISTS begun_detail text;
