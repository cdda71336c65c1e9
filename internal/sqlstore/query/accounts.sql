-- name: accounts
-- What is known of every provider's name.
SELECT provider, version, state FROM accounts ORDER BY provider
