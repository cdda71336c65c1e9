package embedded

import "github.com/homeward-io/homeward/claim"

// LockRow holds the row lock of a claim until unlock is called.
func (v *View) LockRow(key claim.Key, home string) (unlock func()) {
	lock := v.db.rows.of(v.db.regions[home], key)
	lock.Lock()
	return lock.Unlock
}

// MaxNotes is the limit of waiting notes.
const MaxNotes = maxNotes

// SetFormat pretends that a build of another version wrote the store.
func (db *DB) SetFormat(version uint64) error {
	b := db.pebble.NewBatch()
	setMeta(b, metaFormat, version)
	return b.Commit(nil)
}

// Rows counts the rows of a table by its letter.
func (db *DB) Rows(table byte) (n int, err error) {
	err = db.scan([]byte{table}, []byte{table + 1}, func(_, _ []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// Flush writes the memtable to a table.
func (db *DB) Flush() error { return db.pebble.Flush() }
