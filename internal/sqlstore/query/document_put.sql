-- name: document_put
-- Changes a document, unless it has changed since it was read.
INSERT INTO documents AS d (kind, name, version, state)
SELECT @kind::text, @name::text, @version::int8 + 1, @state::bytea
WHERE @version::int8 = 0 OR EXISTS (SELECT 1 FROM documents WHERE kind = @kind::text AND name = @name::text)
ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, state = excluded.state
WHERE d.version = excluded.version - 1
RETURNING d.version
