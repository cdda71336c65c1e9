-- name: audit_advance
-- Moves a chain on, unless it has moved since it was read.
INSERT INTO audit_chains AS a (
    home_region, version, number, digest, from_at, to_at, part, after_tenant, after_key, after_at, after_id, swept_until, books_at, books_id)
SELECT @home::crdb_internal_region, @was::int8 + 1, @number::int8, @digest::text, @from_at::timestamptz, @to_at::timestamptz, @part::int4,
       @after_tenant::text, @after_key::text, @after_at::timestamptz, @after_id::text, @swept_until::timestamptz,
       @books_at::timestamptz, @books_id::text
WHERE @was::int8 = 0 OR EXISTS (SELECT 1 FROM audit_chains WHERE home_region = @home::crdb_internal_region)
ON CONFLICT (home_region) DO UPDATE SET
    version = excluded.version, number = excluded.number, digest = excluded.digest, from_at = excluded.from_at, to_at = excluded.to_at, part = excluded.part,
    after_tenant = excluded.after_tenant, after_key = excluded.after_key, after_at = excluded.after_at, after_id = excluded.after_id,
    swept_until = excluded.swept_until, books_at = excluded.books_at, books_id = excluded.books_id
WHERE a.version = excluded.version - 1
RETURNING a.version
