-- Finds a claim by the id of its object.
CREATE UNIQUE INDEX IF NOT EXISTS claims_by_object ON claims (home_region, tenant_id, object_id);
