package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// copied are all tables with rows, in an order in which they can be filled.
var copied = []string{
	"regions", "deployment", "documents", "tenants", "api_keys", "pins", "claims", "unpaid",
	"ledger", "ledger_carried", "audit", "audit_chains", "events", "expiries", "notices", "notices_due", "witnesses",
}

const (
	// copyRows and copyBytes bound one statement of a copy.
	copyRows  = 100
	copyBytes = 1 << 20
)

// CopiedTable is the result of a copy for one table: the number of its rows, which is
// the same on both sides.
type CopiedTable struct {
	Name string
	Rows int64
}

// Copy copies every row of from to m, whose schema must be the same, with regions of
// the same names and codes, and no rows yet. No node may run on either. It reads one
// snapshot of from and changes nothing there. At the end it compares both sides, and
// fails if they differ. With resume it keeps existing rows, as an interrupted copy has
// left them; it sends all others again. It calls report for each table after the
// comparison.
func (m *Migrator) Copy(ctx context.Context, from *Migrator, resume bool, report func(CopiedTable)) error {
	for _, side := range []*Migrator{from, m} {
		if err := side.copyable(ctx); err != nil {
			return err
		}
	}
	if err := m.sameRegions(ctx, from); err != nil {
		return err
	}
	if !resume {
		if err := m.empty(ctx); err != nil {
			return err
		}
	}
	tx, err := from.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return copyError("the snapshot", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it has read only
	sent := map[string]tableSum{}
	columns := map[string]string{}
	for _, table := range copied {
		if sent[table], columns[table], err = m.copyTable(ctx, tx, table); err != nil {
			return copyError(table, err)
		}
	}
	for _, table := range copied {
		there, err := m.sum(ctx, table, columns[table])
		if err != nil {
			return copyError(table, err)
		}
		if there != sent[table] {
			return fmt.Errorf("copy: table %s has %d rows and the copy has %d, or they differ; the copy cannot be used: make a new database and copy again", table, sent[table].rows, there.rows)
		}
		report(CopiedTable{table, there.rows})
	}
	return nil
}

func copyError(what string, err error) error {
	return fmt.Errorf("copy: %s: %w; mend the cause and go on with --resume", what, &lineError{err})
}

// copyable refuses a database with another schema, or in use.
func (m *Migrator) copyable(ctx context.Context) error {
	have, err := schemaVersion(ctx, m.conn)
	if err != nil {
		return copyError("the schema version", err)
	}
	if have != SchemaVersion() {
		return fmt.Errorf("copy: %s is at schema version %d, not %d; run homeward migrate up of this build on both databases", m.version, have, SchemaVersion())
	}
	open, err := sessionsOf(ctx, m.conn, m.dialect, migrateName)
	if err != nil {
		return copyError("the sessions", err)
	}
	if len(open) > 0 {
		return fmt.Errorf("copy: %s has other sessions: %s; stop every node, and whatever else uses it", m.version, strings.Join(open, ", "))
	}
	return nil
}

// sameRegions refuses a target whose codes differ.
func (m *Migrator) sameRegions(ctx context.Context, from *Migrator) error {
	want, err := from.regions(ctx)
	if err != nil {
		return copyError("regions", err)
	}
	have, err := m.regions(ctx)
	if err != nil {
		return copyError("regions", err)
	}
	var names, there []string
	for _, r := range want {
		names = append(names, fmt.Sprintf("%s=%d", r.Name, r.Code))
	}
	for _, r := range have {
		there = append(there, fmt.Sprintf("%s=%d", r.Name, r.Code))
	}
	slices.Sort(names)
	slices.Sort(there)
	if !slices.Equal(names, there) {
		return fmt.Errorf("copy: the target has the regions %s; make it with homeward migrate up --regions %s", strings.Join(there, ","), strings.Join(names, ","))
	}
	return nil
}

// empty refuses a target with rows.
func (m *Migrator) empty(ctx context.Context) error {
	for _, table := range copied[2:] { // regions are there, and the id, which becomes that of from
		var filled bool
		if err := m.conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&filled); err != nil {
			return copyError(table, err)
		}
		if filled {
			return fmt.Errorf("copy: table %s of the target has rows; copy to a new database, or say --resume where they are of a copy that was cut off", table)
		}
	}
	return nil
}

// copyTable sends the rows of a table, and returns their sum, and the columns.
func (m *Migrator) copyTable(ctx context.Context, tx pgx.Tx, table string) (sum tableSum, columns string, err error) {
	rows, err := tx.Query(ctx, "SELECT * FROM "+table)
	if err != nil {
		return sum, "", err
	}
	defer rows.Close()
	var names []string
	for _, f := range rows.FieldDescriptions() {
		names = append(names, quote(f.Name))
	}
	columns = strings.Join(names, ", ")
	conflict := " ON CONFLICT DO NOTHING"
	switch table {
	case "regions":
		conflict = " ON CONFLICT (name) DO UPDATE SET status = excluded.status, epoch = excluded.epoch"
	case "deployment":
		conflict = " ON CONFLICT (singleton) DO UPDATE SET id = excluded.id, created_at = excluded.created_at"
	}
	batch := copyBatch{head: "INSERT INTO " + table + " (" + columns + ") VALUES ", tail: conflict, width: len(names)}
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return sum, "", err
		}
		sum.add(values)
		if batch.add(values); batch.full() {
			if err := batch.send(ctx, m.conn); err != nil {
				return sum, "", err
			}
		}
	}
	return sum, columns, errors.Join(rows.Err(), batch.send(ctx, m.conn))
}

// sum reads a table of the target.
func (m *Migrator) sum(ctx context.Context, table, columns string) (sum tableSum, err error) {
	rows, err := m.conn.Query(ctx, "SELECT "+columns+" FROM "+table)
	if err != nil {
		return sum, err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return sum, err
		}
		sum.add(values)
	}
	return sum, rows.Err()
}

// copyBatch is the rows of one INSERT.
type copyBatch struct {
	head, tail         string
	width, rows, bytes int
	values             []any
}

func (b *copyBatch) add(values []any) {
	b.values = append(b.values, values...)
	b.rows++
	for _, v := range values {
		switch v := v.(type) {
		case string:
			b.bytes += len(v)
		case []byte:
			b.bytes += len(v)
		}
	}
}

func (b *copyBatch) full() bool { return b.rows == copyRows || b.bytes >= copyBytes }

func (b *copyBatch) send(ctx context.Context, conn *pgx.Conn) error {
	if b.rows == 0 {
		return nil
	}
	var sql strings.Builder
	sql.WriteString(b.head)
	for i := range b.rows * b.width {
		switch {
		case i == 0:
			sql.WriteString("(")
		case i%b.width == 0:
			sql.WriteString("), (")
		default:
			sql.WriteString(", ")
		}
		fmt.Fprintf(&sql, "$%d", i+1)
	}
	_, err := conn.Exec(ctx, sql.String()+")"+b.tail, b.values...)
	b.values, b.rows, b.bytes = b.values[:0], 0, 0
	return err
}

// tableSum is an order-independent sum of a table's rows: their number, and the sum of
// their hashes.
type tableSum struct {
	rows     int64
	low, top uint64
}

func (s *tableSum) add(values []any) {
	h := sha256.New()
	for _, v := range values {
		text := canonical(v)
		fmt.Fprintf(h, "%d:%s,", len(text), text)
	}
	sum := h.Sum(nil)
	s.rows++
	s.low += binary.BigEndian.Uint64(sum)
	s.top += binary.BigEndian.Uint64(sum[8:])
}

// canonical renders a value alike for both databases.
func canonical(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case interface{ UnixMicro() int64 }: // in whatever zone it is shown
		return fmt.Sprint("time ", v.UnixMicro())
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = fmt.Sprintf("%q", canonical(one))
		}
		return "array " + strings.Join(parts, ",")
	default:
		return fmt.Sprintf("%T %v", v, v)
	}
}
