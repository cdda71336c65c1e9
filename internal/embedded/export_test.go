package embedded

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

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

// Written is how many bytes of batches the log got.
func (db *DB) Written() uint64 { return db.pebble.Metrics().WAL.BytesIn }

// Flights counts the flights that memory holds, and fails where one is not what its
// rows say.
func (db *DB) Flights() (n int, err error) {
	for i, f := range db.flights {
		if f == nil {
			continue
		}
		n++
		db.rows.mu[i].RLock()
		rec, audit, err := db.lookClaim(perhaps, f.rec.Home, f.code, f.rec.Key)
		m, merr := db.readMessage(providerCalls, f.rec.Home, f.code, f.rec.Minted.ID)
		db.rows.mu[i].RUnlock()
		if err := errors.Join(err, merr); err != nil {
			return n, err
		}
		if rec == nil || !reflect.DeepEqual(*rec, f.rec) || audit != f.audit || m == nil || m.Parked || m.Fence != uint64(rec.Generation-1)<<32 {
			return n, fmt.Errorf("memory has %+v; the rows are %+v and %+v", f.rec, rec, m)
		}
	}
	return n, nil
}

// Answers counts the final claims that memory holds, and fails where one is not what its
// row says.
func (db *DB) Answers() (n int, err error) {
	for i := range len(db.answered) * answeredWays {
		a := db.answered[i/answeredWays].ways[i%answeredWays].Load()
		if a == nil {
			continue
		}
		n++
		rec, err := db.readSynced(a.rec.Home, a.code, a.rec.Key)
		if err != nil {
			return n, err
		}
		if rec == nil || !reflect.DeepEqual(*rec, a.rec) {
			return n, fmt.Errorf("memory has %+v; the row is %+v", a.rec, rec)
		}
	}
	return n, nil
}

// Dump is every row but meta, without audit, whose numbers count openings.
func (db *DB) Dump() (map[string]string, error) {
	rows := map[string]string{}
	err := db.scan([]byte{0}, []byte{0xff}, func(k, v []byte) (bool, error) {
		switch k[0] {
		case tableMeta, tableAudit:
			return true, nil
		case tableClaim:
			_, audit, err := decodeClaim("", claim.Key{}, v)
			rows[string(k)] = strings.TrimSuffix(string(v), audit)
			return true, err
		}
		rows[string(k)] = string(v)
		return true, nil
	})
	return rows, err
}

// PutUnpaid writes or deletes a row of a table that is probed, and FindUnpaid probes
// for it: once as the store does, and once in all places.
func (db *DB) PutUnpaid(object string, there bool) error {
	defer db.lockUnpaid(1, object)()
	b := db.pebble.NewBatch()
	key := appendScoped(nil, tableUnpaid, 1, "", object)
	if there {
		return errors.Join(b.Set(key, []byte(object), nil), db.commit(b, pebble.NoSync), b.Close())
	}
	return errors.Join(b.Delete(key, nil), db.commit(b, pebble.NoSync), b.Close())
}

func (db *DB) FindUnpaid(object string) (found, really bool, err error) {
	defer db.lockUnpaid(1, object)()
	key := appendScoped(nil, tableUnpaid, 1, "", object)
	is := func(value []byte) error {
		if string(value) != object {
			return fmt.Errorf("%s has %s", object, value)
		}
		return nil
	}
	found, err = db.probe(key, is)
	really, rerr := db.probeAll(key, is)
	return found, really, errors.Join(err, rerr)
}

// Remembered fails where what memory has of due rows and lines is not what the rows
// say. Nothing may be under way.
func (db *DB) Remembered() error {
	for table, ds := range db.dues {
		prefix := appendRegion(nil, table.letter, table.code)
		var want []due
		err := db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
			at := string(k[len(prefix):])
			if ds.whole || at < ds.until {
				want = append(want, due{at, string(value)})
			}
			return true, nil
		})
		if err != nil {
			return err
		}
		if !slices.Equal(want, ds.rows) {
			return fmt.Errorf("%c of %d: memory has %d due rows, there are %d before %q", table.letter, table.code, len(ds.rows), len(want), ds.until)
		}
	}
	for code, c := range db.calls {
		prefix := appendRegion(nil, providerCalls.row, code)
		want := newCallRows()
		err := db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
			d, is, err := callOf(k[len(prefix):], value)
			if is && (c.whole || d.at < c.until) {
				want.ReplaceOrInsert(d)
			}
			return true, err
		})
		if err != nil {
			return err
		}
		if got := c.rows.Len(); got != want.Len() || got != len(c.places) {
			return fmt.Errorf("memory has %d provider calls of %d and %d places, there are %d before %q", got, code, len(c.places), want.Len(), c.until)
		}
		want.Ascend(func(d due) bool {
			if got, _ := c.rows.Get(d); got != d || c.places[d.id()] != d.at {
				err = fmt.Errorf("memory of %d has %q for the provider call %q", code, got, d)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	again := newLines()
	again.seed = db.lines.seed
	if err := again.load(db); err != nil {
		return err
	}
	for i := range again.counts {
		if want, got := again.counts[i].Load(), db.lines.counts[i].Load(); want != got {
			return fmt.Errorf("memory counts %d rows of lines, there are %d", got, want)
		}
	}
	return nil
}

// DueWindow is how many due rows are read at once.
const DueWindow = dueWindow

// CallsKept bounds the provider calls in memory.
const CallsKept = callsKept

// Sync makes durable what was written without a sync.
func (db *DB) Sync() error { return db.afterScan() }
