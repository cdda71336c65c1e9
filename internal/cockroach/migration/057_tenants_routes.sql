-- Which provider a tenant's payments go to; see payment.Routes. A node of the version
-- before reads no such column, and sends them to the only provider that it has.
ALTER TABLE tenants ADD COLUMN IF NOT EXISTS routes text NOT NULL DEFAULT '';
