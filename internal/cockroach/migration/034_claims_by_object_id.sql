-- Finds a claim by the id of its object, whoever's it is: a provider does not know
-- our tenants.
CREATE UNIQUE INDEX IF NOT EXISTS claims_by_object_id ON claims (home_region, object_id);
