package embedded

import (
	"context"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// LockRow holds the row lock of a claim until unlock is called.
func (v *View) LockRow(key claim.Key, home string) (unlock func()) {
	lock := &v.rows.mu[v.rows.index(v.regions[home], key)]
	lock.Lock()
	return lock.Unlock
}

// SetFormat pretends that a build of another version wrote the store.
func (db *DB) SetFormat(version uint64) error {
	return db.do(context.Background(), func(t *tx) { t.setMeta(metaFormat, version) })
}

// Rows counts the rows of a table by its letter.
func (db *DB) Rows(table byte) (n int, err error) {
	err = db.do(context.Background(), func(t *tx) { n = t.count([]byte{table}, []byte{table + 1}) })
	return n, err
}

// Flush writes the memtable to a table.
func (db *DB) Flush() error { return db.pebble.Flush() }

// Written is how many bytes of batches the log got.
func (db *DB) Written() uint64 { return db.pebble.Metrics().WAL.BytesIn }

// Dump returns every row but meta and audit, which count openings.
func (db *DB) Dump() (map[string]string, error) {
	rows := map[string]string{}
	err := db.do(context.Background(), func(t *tx) {
		t.scan([]byte{0}, []byte{0xff}, func(k, v []byte) bool {
			if k[0] != tableMeta && k[0] != tableAudit {
				rows[string(k)] = string(v)
			}
			return true
		})
	})
	return rows, err
}

// Sync makes durable what was written without a sync.
func (db *DB) Sync() error { return db.do(context.Background(), (*tx).durable) }

// Reread looks for a transaction in one call: before meanwhile, then under the transaction's lock,
// and, if held is false, under one that it does not keep.
func (v *View) Reread(region, id string, held bool, meanwhile func()) (before, after bool, err error) {
	err = v.in(context.Background(), region, func(t *tx) {
		t.share()
		before = t.transaction(id) != nil
		meanwhile()
		lock := t.books.of(t.code, bookOf(id))
		read := func() *ledger.Transaction { return t.transaction(id) }
		if held {
			t.hold(lock)
			after = read() != nil
		} else {
			after = synced(t, lock, read) != nil
		}
	})
	return before, after, err
}
