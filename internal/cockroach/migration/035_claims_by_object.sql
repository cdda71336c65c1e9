-- The same with the tenant in it: 034 serves both.
DROP INDEX IF EXISTS claims_by_object{{ if .Cockroach }} CASCADE{{ end }};
