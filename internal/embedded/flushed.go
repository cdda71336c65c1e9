package embedded

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A new charge looks up four missing rows: its pin, its claim, its transaction and its
// arrival. An iterator for each would be created and discarded, and search every
// memtable besides. But most rows are in tables, which change only with a flush. So
// iterators over the tables alone are kept and shared, and memory marks the keys that
// were written since the latest flush: those are looked up in the memtables. This serves
// the budget of charges, half the rate of two bare synced batches, which would have room
// for the tenth more CPU that a charge takes at most without it.

// markSlots is how many marks there are, of 8 bytes. Between two flushes some 12,000 keys
// are marked, so that few others share a mark with them.
const markSlots = 1 << 18

// flushed answers look-ups from the tables, for keys that were not written since the
// latest flush.
type flushed struct {
	seed maphash.Seed
	// marks hold, by hash of a row's key, the latest write of this opening that had that
	// hash: its sequence number, of 56 bits, and below it more of the hash.
	marks []atomic.Uint64
	// opened is the sequence number of the first write of this opening: earlier writes
	// may be in memtables without a mark.
	opened uint64
	// tables is the latest sequence number that is in a table, and with it all before;
	// until the latest such that is published, too: every iterator sees it.
	tables, until atomic.Uint64
	idle          [len(probed)]idle
}

// probed are the tables that flushed covers. Their rows are looked up only under the
// lock that their writers hold until commit has returned, so that the mark is set
// before any look-up.
var probed = [...]byte{tableClaim, tablePin, tableLedger, tableArrival, tableNotice, tableUnpaid, tableEvent}

// probedAs is the index in probed of each table's letter, plus 1.
var probedAs = func() (as [256]uint8) {
	for i, table := range probed {
		as[table] = uint8(i + 1)
	}
	return as
}()

// idle are the unused iterators of one table. Each table has its own, because an
// iterator that stays in one part of the keys keeps its files open.
type idle struct {
	mu sync.Mutex
	of []tables
}

// tables is an iterator over the tables at the time of its creation.
type tables struct {
	*pebble.Iterator
	until uint64 // sequence number
}

func newFlushed() *flushed {
	return &flushed{seed: maphash.MakeSeed(), marks: make([]atomic.Uint64, markSlots), opened: math.MaxUint64}
}

// mark returns the mark of a key, and the part of its hash that belongs into it.
func (f *flushed) mark(key []byte) (mark *atomic.Uint64, part uint64) {
	h := maphash.Bytes(f.seed, key)
	return &f.marks[h%markSlots], h >> (64 - partBits)
}

const partBits = 8

// wrote marks a key that a commit has written, or deleted, with its sequence number or a
// later one.
func (f *flushed) wrote(seq uint64, key []byte) {
	if probedAs[key[0]] == 0 {
		return
	}
	mark, part := f.mark(key)
	for {
		if was := mark.Load(); was>>partBits >= seq || mark.CompareAndSwap(was, seq<<partBits|part) {
			return
		}
	}
}

// flushEnded is called by Pebble. The flushed memtables were the oldest ones. New
// iterators see the new tables; but their content is not visible before Pebble has
// published it, in the order of sequence numbers: see returned.
func (f *flushed) flushEnded(info pebble.FlushInfo) {
	if info.Err != nil {
		return
	}
	for _, t := range info.Output {
		raise(&f.tables, uint64(t.LargestSeqNum))
	}
}

// returned is called with the last sequence number of each returned commit. Everything
// before it is published.
func (f *flushed) returned(last uint64) {
	if tables := f.tables.Load(); tables <= last && tables > f.until.Load() {
		raise(&f.until, tables)
	}
}

func raise(to *atomic.Uint64, value uint64) {
	for was := to.Load(); was < value && !to.CompareAndSwap(was, value); was = to.Load() {
	}
}

// unwritten reports that no row of key was written after seq, in this opening. Not that
// one was: false may be another key's.
func (f *flushed) unwritten(key []byte, seq uint64) bool {
	mark, _ := f.mark(key)
	return mark.Load()>>partBits <= seq
}

// where is the place to look for a key.
type where uint8

const (
	// inTables: the tables are right.
	inTables where = iota
	// inMemory: it was written recently, so a memtable has it, or its deletion.
	inMemory
	// anywhere: nobody knows.
	anywhere
)

// look returns where to look for key. With inTables it takes an iterator of the key's
// table, which the caller must end.
func (f *flushed) look(db *pebble.DB, key []byte) (it tables, w where, err error) {
	until := f.until.Load()
	mark, part := f.mark(key)
	switch m := mark.Load(); {
	case m>>partBits > until && m&(1<<partBits-1) == part:
		return tables{}, inMemory, nil
	case m>>partBits > until, until < f.opened:
		return tables{}, anywhere, nil
	}
	for {
		it, ok := f.idle[probedAs[key[0]]-1].pop()
		if !ok {
			break
		}
		if it.until >= until {
			return it, inTables, nil
		}
		if err := it.Close(); err != nil {
			return tables{}, anywhere, unavailable(err)
		}
	}
	made, err := db.NewIter(&tablesOptions)
	if err != nil {
		return tables{}, anywhere, unavailable(err)
	}
	return tables{Iterator: made, until: until}, inTables, nil
}

// tablesOptions leave out the memtables: of a DB only tables are guaranteed durable.
var tablesOptions = pebble.IterOptions{
	KeyTypes: pebble.IterKeyTypePointsOnly, UseL6Filters: true, OnlyReadGuaranteedDurable: true,
}

// end returns the iterator that look took.
func (f *flushed) end(key []byte, it tables) { f.idle[probedAs[key[0]]-1].push(it) }

// drop closes unused iterators: they pin memtables and files that are gone.
func (f *flushed) drop() (err error) {
	for i := range f.idle {
		for {
			it, ok := f.idle[i].pop()
			if !ok {
				break
			}
			if cerr := it.Close(); err == nil {
				err = cerr
			}
		}
	}
	return err
}

func (i *idle) pop() (it tables, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := len(i.of) - 1
	if n < 0 {
		return tables{}, false
	}
	it, i.of = i.of[n], i.of[:n]
	return it, true
}

func (i *idle) push(it tables) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of = append(i.of, it)
}
