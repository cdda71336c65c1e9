-- name: tenant_card_numbers
-- Says what becomes of card numbers in a tenant's free text.
UPDATE tenants SET card_numbers = $2::text WHERE id = $1::text
