package embedded

import (
	"encoding/binary"
	"errors"

	"github.com/homeward-io/homeward/claim"
)

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

// Downgrade makes the store what format 1 was: objects indexed by tenant and id.
func (db *DB) Downgrade() error {
	b := db.pebble.NewBatch()
	setMeta(b, metaFormat, 1)
	err := db.scan([]byte{tableObject}, []byte{tableObject + 1}, func(k, value []byte) (bool, error) {
		owner, _ := readOwner(value)
		code := claim.RegionCode(binary.BigEndian.Uint16(k[1:]))
		old := appendScoped(nil, tableObjectV1, code, owner.Tenant, string(k[keyHead:]))
		return true, errors.Join(b.Set(old, []byte(owner.Value), nil), b.Delete(k, nil))
	})
	return errors.Join(err, b.Commit(nil))
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
