-- name: unhurried
-- For one transaction that reads much, and for whose end a person waits.
SET LOCAL statement_timeout = '30s'
