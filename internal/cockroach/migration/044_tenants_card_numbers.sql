-- What becomes of card numbers in a tenant's free text. A node of the version before
-- reads no such column, and writes tenants that have the default.
ALTER TABLE tenants ADD COLUMN IF NOT EXISTS card_numbers text NOT NULL DEFAULT 'refuse'
    CONSTRAINT tenants_card_numbers CHECK (card_numbers IN ('refuse', 'mask', 'allow'));
