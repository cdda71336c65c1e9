-- name: ledger_forget
-- See the function, in migration/.
SELECT forget_books(@home::crdb_internal_region, @was::int8, @number::int8, @digest::text, @books_at::timestamptz, @books_id::text, @ids::text[])
