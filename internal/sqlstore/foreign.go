package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
)

// In returns a ctx whose calls run in tx, a transaction of somebody else on the same database:
//
//	ctx = sqlstore.In(ctx, tx)
//	begun, err := view.Begin(ctx, arrival)
//	rec, err := view.Settle(ctx, begun.Record, verdict)
//
// What the calls write is durable when tx commits, and gone when it rolls back. A call sends each
// statement once, on the connection of tx, with the search path of this store, and leaves the
// session as it was. A failed statement has ended tx, so nothing is repeated: the error wraps the
// database's, 40001 above all, for whoever runs the transaction again. On CockroachDB tx must be
// serializable.
//
// A statement that meets a row of another open transaction waits for its end, for as long as ctx and
// the session allow.
func In(ctx context.Context, tx pgx.Tx) context.Context {
	return context.WithValue(ctx, foreignKey{}, tx)
}

type foreignKey struct{}

// foreign returns the transaction of [In].
func foreign(ctx context.Context) (tx pgx.Tx, ok bool) {
	tx, ok = ctx.Value(foreignKey{}).(pgx.Tx)
	return tx, ok
}

// ErrTransaction: a statement failed in a transaction of [In]. The transaction must be rolled back;
// nothing of it is done.
var ErrTransaction = errors.New("the transaction has failed")

// transactionError is ErrTransaction with the database's error. It is claim.ErrUnavailable, too,
// unless the database refused the statement: then a transaction that runs again is refused again.
type transactionError struct {
	statement string
	// schema is that of our tables; "": the database's default.
	schema string
	err    error
}

func (e *transactionError) Error() string {
	s := fmt.Sprintf("%s: %s", e.statement, oneLine(e.err))
	schema := cmp.Or(e.schema, "public")
	switch {
	case hasCode(e.err, undefinedTable), hasCode(e.err, codeNoSchema), hasCode(e.err, insufficientPrivilege):
		s += fmt.Sprintf("; the role of this transaction may not use schema %[1]s; GRANT USAGE ON SCHEMA %[1]s and "+
			"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA %[1]s to it, or begin the transaction in the database that was opened, "+
			"or take a COMMIT or ROLLBACK out of its function", schema)
	case hasCode(e.err, codeReadOnly):
		s += "; a claim is a write, so begin one that writes, on the primary"
	}
	return s
}

func (e *transactionError) Unwrap() []error {
	if judge(e.err) == refused || hasCode(e.err, codeReadOnly) {
		return []error{e.err, ErrTransaction}
	}
	return []error{e.err, ErrTransaction, claim.ErrUnavailable}
}

// tryIn runs a statement once in tx.
func (db *DB) tryIn(ctx context.Context, tx pgx.Tx, sql string, bound []any, read func(rows pgx.Rows) error) error {
	name := statementName(sql)
	failed := func(err error) error {
		if err == nil {
			return nil
		}
		first, _, _ := strings.Cut(db.searchPath, ",")
		return &transactionError{name, first, err}
	}
	var own, level string
	if db.searchPath != "" {
		// A list of a select is evaluated from the left. pg_temp is else the first: a temporary table of
		// the program would hide ours.
		path := db.searchPath + ", pg_temp"
		err := tx.QueryRow(ctx, "SELECT current_setting('search_path'), current_setting('transaction_isolation'), set_config('search_path', $1, true)", path).Scan(&own, &level, nil)
		if err != nil {
			return failed(err)
		}
		if db.dialect.cockroach && level != "serializable" { // no constraint keeps a key from two homes, as one does on PostgreSQL
			return fmt.Errorf("%w: it is %s, and a claim on CockroachDB needs a serializable one, which is its default; begin it so", ErrTransaction, level)
		}
	}
	if err := query(ctx, tx, sql, described(bound), read); err != nil || db.searchPath == "" {
		return failed(err)
	}
	_, err := tx.Exec(ctx, "SELECT set_config('search_path', $1, true)", own)
	return failed(err)
}

// described lets the database say what the arguments of a statement are, whatever the mode of the
// connection is: pgx cannot guess that of arrays. It leaves no statement in the program's session.
func described(bound []any) []any {
	if mode, ok := bound[0].(pgx.QueryExecMode); ok { // each statement of a claim has arguments
		if mode == pgx.QueryExecModeSimpleProtocol { // of CockroachDB, and without arrays
			return bound
		}
		bound = bound[1:]
	}
	return append([]any{pgx.QueryExecModeDescribeExec}, bound...)
}
