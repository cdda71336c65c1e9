-- Housekeeping finds here the bodies that nobody needs any more; see webhook.KeepBodyFor.
CREATE INDEX IF NOT EXISTS notices_bodied ON notices (home_region, processed_at)
WHERE processed_at IS NOT NULL AND length(body) > 0;
