package embedded

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/btree"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// Begin writes a provider call's row and Settle deletes it, usually before it is due. A
// due row would be written and deleted for nothing, so there is none: an index in
// memory orders the calls by their due times.

const (
	// callsRead is how many of a region's provider calls are kept when its rows are
	// read: those that are due first. Reading scans all rows: a million, as an outage
	// of the provider may leave, take a second.
	callsRead = 32 << 10
	// callsKept bounds them: some 13 MB during an outage.
	callsKept = 2 * callsRead
	// callsDegree is the degree of the tree: its nodes have twice as many rows.
	callsDegree = 32
)

// calls are the first provider calls of a region by due time, without parked ones. The
// rows are the truth; this is read from them, and follows each commit.
type calls struct {
	code claim.RegionCode

	// reading is held while rows are read. It is locked before mu.
	reading sync.Mutex
	read    time.Time // by the store's clock

	mu   sync.Mutex
	rows *btree.BTreeG[due]
	// places maps ids to the rows' places.
	places map[string]string
	// until is the first place that rows do not reach; whole: there is none.
	until string
	whole bool
	// noted are the changes of commits while rows are read; nil while they are not.
	noted []change
}

// change is a commit's change to a row: due at d, or deleted, or parked.
type change struct {
	id string
	d  due
	is bool
}

func newCalls(regions []claim.Region) map[claim.RegionCode]*calls {
	all := map[claim.RegionCode]*calls{}
	for _, r := range regions {
		all[r.Code] = &calls{code: r.Code, rows: newCallRows(), places: map[string]string{}}
	}
	return all
}

func newCallRows() *btree.BTreeG[due] {
	return btree.NewG(callsDegree, func(a, b due) bool { return a.at < b.at })
}

// callOf reads the place from a row. A parked row has none.
func callOf(id, value []byte) (d due, is bool, err error) {
	var us int64
	var parked bool
	var tenant, key []byte
	err = readFields(value, func(f field) error {
		switch f.number {
		case 2:
			tenant = value[f.from:f.to]
		case 3:
			key = value[f.from:f.to]
		case 8:
			us = int64(f.value)
		case 12:
			parked = f.value != 0
		}
		return nil
	})
	if err != nil || parked {
		return due{}, false, err
	}
	if len(tenant) == 0 { // as ownerOf
		key = id
	}
	at := timedHead - keyHead + len(id)
	text := make([]byte, 0, at+len(tenant)+1+len(key))
	text = append(binary.BigEndian.AppendUint64(text, uint64(us)), id...)
	all := string(append(append(append(text, tenant...), nameEnd), key...)) // as appendOwner
	return due{at: all[:at], owner: all[at:]}, true, nil
}

// wrote records a commit's change to a row.
func (c *calls) wrote(kind pebble.InternalKeyKind, key, value []byte) {
	id := key[keyHead:]
	var d due
	var is bool
	if kind == pebble.InternalKeyKindSet {
		var err error
		if d, is, err = callOf(id, value); err != nil {
			panic(err) // it was encoded here
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted != nil {
		c.noted = append(c.noted, change{string(id), d, is})
	}
	c.put(id, d, is)
}

// put sets or removes the place of id. The caller holds mu.
func (c *calls) put(id []byte, d due, is bool) {
	if at, there := c.places[string(id)]; there {
		if is && at == d.at {
			return
		}
		c.rows.Delete(due{at: at})
		delete(c.places, string(id))
	}
	if !is || !c.whole && d.at >= c.until {
		return
	}
	c.rows.ReplaceOrInsert(d)
	c.places[d.id()] = d.at
	if c.rows.Len() > callsKept {
		last, _ := c.rows.DeleteMax()
		delete(c.places, last.id())
		c.until, c.whole = last.at, false
	}
}

// after is as that of dues.
func (c *calls) after(db *DB, page []due, at, to string, now time.Time, held bool) ([]due, error) {
	if held {
		page, _ = c.page(page, at, to)
		return page, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if age := now.Sub(c.read); age < 0 || age >= dueFor {
		c.stale()
		c.read = now
	}
	for {
		var enough bool
		if page, enough = c.page(page, at, to); enough {
			return page, nil
		}
		if err := c.extend(db); err != nil {
			return nil, err
		}
	}
}

// stale discards everything, to be read again, if that is cheap.
func (c *calls) stale() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole {
		c.forget()
	}
}

// forget clears the memory. The caller holds mu.
func (c *calls) forget() {
	c.rows, c.places = newCallRows(), map[string]string{}
	c.until, c.whole = "", false
}

// page returns the part of a page that is in memory, and whether that is all of it.
func (c *calls) page(page []due, at, to string) (_ []due, enough bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.AscendGreaterOrEqual(due{at: at}, func(d due) bool {
		if d.at >= to || len(page) == cap(page) {
			return false
		}
		if d.at != at {
			page = append(page, d)
		}
		return true
	})
	return page, len(page) > 0 || c.whole || c.until >= to || c.rows.Len() >= callsKept
}

// extend reads on from until. Commits continue meanwhile: one that the scan does not
// see is noted, and applied to the result; one that it sees may be noted as well, which
// changes nothing.
func (c *calls) extend(db *DB) error {
	c.mu.Lock()
	from := c.until
	c.noted = []change{}
	c.mu.Unlock()
	found, until, whole := newCallRows(), "", true
	prefix := appendRegion(nil, providerCalls.row, c.code)
	err := db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		d, is, err := callOf(k[len(prefix):], value)
		switch {
		case err != nil:
			return false, damaged("outbox row", string(k[len(prefix):]), err)
		case !is, d.at < from, !whole && d.at >= until:
			return true, nil
		}
		found.ReplaceOrInsert(d)
		if found.Len() > callsRead {
			last, _ := found.DeleteMax()
			until, whole = last.at, false
		}
		return true, nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	noted := c.noted
	c.noted = nil
	if err != nil {
		c.forget()
		return err
	}
	if c.until < from {
		// Commits have evicted rows from before this began to read: the caller reads
		// again.
		c.forget()
		return nil
	}
	c.until, c.whole = until, whole
	found.Ascend(func(d due) bool {
		c.put([]byte(d.id()), d, true)
		return true
	})
	for _, n := range noted {
		c.put([]byte(n.id), n.d, n.is)
	}
	return nil
}

// depth counts the rows that are not parked; the first ones from memory.
func (c *calls) depth(db *DB, now time.Time) (d outbox.Depth, err error) {
	prefix := appendRegion(nil, providerCalls.row, c.code)
	err = db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		call, is, err := callOf(k[len(prefix):], value)
		if err != nil {
			return false, damaged("outbox row", string(k[len(prefix):]), err)
		}
		if is {
			d.Pending++
			d.Due += int(bit(call.due() <= micros(now)))
		}
		return d.Pending < depthLimit, nil
	})
	if err != nil || d.Pending == 0 {
		return d, err
	}
	first, err := c.after(db, make([]due, 0, 1), "", behindAll, now, false)
	// Otherwise it has been handled meanwhile. It may be the only due one of those that
	// were not counted.
	if len(first) > 0 && first[0].due() <= micros(now) {
		d.OldestDue, d.Due = fromMicros(first[0].due()), max(d.Due, 1)
	}
	return d, err
}
