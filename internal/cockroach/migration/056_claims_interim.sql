-- What a claim answers while its payer has to act or a bank takes its time; see
-- claim.Interim. A node of before neither reads nor keeps it: it names the object and
-- the generation that it is of.
ALTER TABLE claims ADD COLUMN IF NOT EXISTS interim bytea;
