-- name: tenant_card_numbers
-- Says what becomes of card numbers in a tenant's free text.
UPDATE tenants SET card_numbers = @card_numbers::text WHERE id = @tenant_id::text
