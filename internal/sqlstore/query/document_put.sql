-- name: document_put
-- Changes a document, unless it has changed since it was read. A step that is there already is that of
-- an earlier run, whose reply was lost.
INSERT INTO documents AS d (kind, name, version, step, state)
SELECT @kind::text, @name::text, @version::int8 + 1, @step::uuid, @state::bytea
WHERE @version::int8 = 0 OR EXISTS (SELECT 1 FROM documents WHERE kind = @kind::text AND name = @name::text)
ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, step = excluded.step, state = excluded.state
WHERE d.version = excluded.version - 1 OR d.version = excluded.version AND d.step = excluded.step
RETURNING d.version
