-- How the latest released generation ended, for the requests that were under way
-- then; see claim.Refusal. A node of before neither reads nor keeps it.
ALTER TABLE claims ADD COLUMN IF NOT EXISTS refused_at timestamptz, ADD COLUMN IF NOT EXISTS refusal bytea;
