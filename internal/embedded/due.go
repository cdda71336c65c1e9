package embedded

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
)

const (
	// dueWindow is how many due rows are read at once, some 1 ms; twice as many are kept.
	dueWindow = 2048
	// dueFor is how long they are kept before they are read again. That is only a
	// safeguard, as each commit is noted; if one were missed, its row waits no longer
	// than this.
	dueFor = time.Minute
)

// dueTable names the due rows of a queue in a region.
type dueTable struct {
	letter byte
	code   claim.RegionCode
}

// isDue tells the letters of tables of due rows.
var isDue = func() (is [256]bool) {
	for _, q := range queues {
		if q.due != 0 {
			is[q.due] = true
		}
	}
	return is
}()

// newDues makes those of all queues that have due rows, and all regions.
func newDues(regions []claim.Region) map[dueTable]*dues {
	all := map[dueTable]*dues{}
	for _, r := range regions {
		for _, q := range queues {
			if q.due == 0 {
				continue
			}
			all[dueTable{q.due, r.Code}] = &dues{table: q.due, code: r.Code}
		}
	}
	return all
}

// dues are the first due rows of a queue in a region, in their order. Handled rows
// leave deletions that a scan steps over until compaction removes them: thousands, in a
// queue with thousands of rows a second. The rows are the truth; this is read from
// them, and follows each commit.
type dues struct {
	table byte
	code  claim.RegionCode

	mu   sync.Mutex
	rows []due
	// until is the first place that rows do not reach; whole: there is none.
	until string
	whole bool
	read  time.Time // by the store's clock
}

// due is one row: what its key has after the region, and its value.
type due struct{ at, owner string }

func (d due) compare(at string) int { return cmp.Compare(d.at, at) }

// due is when, in microseconds.
func (d due) due() int64 {
	us, _, _ := readDue(d.at)
	return us
}

// id is of whose row it is.
func (d due) id() string { return d.at[timedHead-keyHead:] }

// places are the first due rows of a queue in a region, in their order, as memory has
// them.
type places interface {
	// after appends to page the first rows after the place at, and before to, until it
	// is full. If there are none left, the page stays empty. It may also stay empty if
	// the caller holds locks of rows, held, and memory has none: scans are not made
	// under them.
	after(db *DB, page []due, at, to string, now time.Time, held bool) ([]due, error)
}

func (db *DB) due(q *queue, code claim.RegionCode) places {
	if q == providerCalls {
		return db.calls[code]
	}
	return db.dues[dueTable{q.due, code}]
}

// wrote records a commit's change to a row.
func (ds *dues) wrote(kind pebble.InternalKeyKind, key, value []byte) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	at := string(key[keyHead:])
	if !ds.whole && at >= ds.until {
		return
	}
	i, there := slices.BinarySearchFunc(ds.rows, at, due.compare)
	switch {
	case kind != pebble.InternalKeyKindSet && there:
		ds.rows = slices.Delete(ds.rows, i, i+1)
	case kind == pebble.InternalKeyKindSet && !there:
		ds.rows = slices.Insert(ds.rows, i, due{at: at, owner: string(value)})
		if len(ds.rows) > 2*dueWindow {
			ds.until, ds.whole = ds.rows[dueWindow].at, false
			ds.rows = slices.Delete(ds.rows, dueWindow, len(ds.rows))
		}
	}
}

func (ds *dues) after(db *DB, page []due, at, to string, now time.Time, _ bool) ([]due, error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if age := now.Sub(ds.read); age < 0 || age >= dueFor {
		ds.rows, ds.until, ds.whole, ds.read = ds.rows[:0], "", false, now
	}
	for {
		i, there := slices.BinarySearchFunc(ds.rows, at, due.compare)
		if there {
			i++
		}
		for ; i < len(ds.rows) && ds.rows[i].at < to && len(page) < cap(page); i++ {
			page = append(page, ds.rows[i])
		}
		if len(page) > 0 || ds.whole || ds.until >= to || len(ds.rows) >= 2*dueWindow {
			return page, nil
		}
		if err := ds.extend(db); err != nil {
			return nil, err
		}
	}
}

// extend reads on from until. The scan sees a commit that is not noted yet, or the
// commit is noted after it.
func (ds *dues) extend(db *DB) error {
	prefix := appendRegion(nil, ds.table, ds.code)
	ds.whole = true
	n := 0
	err := db.scan(append(slices.Clip(prefix), ds.until...), prefixEnd(prefix), func(k, value []byte) (bool, error) {
		at := string(k[len(prefix):])
		if n++; n > dueWindow {
			ds.until, ds.whole = at, false
			return false, nil
		}
		ds.rows = append(ds.rows, due{at: at, owner: string(value)})
		return true, nil
	})
	if err != nil {
		ds.rows, ds.until, ds.whole = ds.rows[:0], "", false
	}
	return err
}
