-- Where the window ends that an export is in the midst of; see audit.Chain. A node of the version
-- before neither reads nor writes it, and so may leave an earlier window's end, which counts for
-- nothing.
ALTER TABLE audit_chains ADD COLUMN IF NOT EXISTS to_at timestamptz;
