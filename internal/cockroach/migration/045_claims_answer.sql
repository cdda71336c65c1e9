-- What every retry reads, in the claim's own row: one write and one look-up less for
-- each charge. It is there while answered is the row's step: a node of before, which
-- knows none of these columns, leaves them behind when it gives the key away.
ALTER TABLE claims
    ADD COLUMN IF NOT EXISTS answered uuid,
    ADD COLUMN IF NOT EXISTS answer_status int2,
    ADD COLUMN IF NOT EXISTS answer_header bytea,
    ADD COLUMN IF NOT EXISTS answer_body bytea,
    -- names the body in the object store, when it is too large for the row
    ADD COLUMN IF NOT EXISTS answer_blob text;
