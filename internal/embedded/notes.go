package embedded

import (
	"context"
	"encoding/binary"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
)

const (
	// maxNotes bounds the notes in memory: a second's worth at 8,000 replies a
	// second, some 2 MB. Beyond it the oldest are dropped and counted.
	maxNotes = 8192
	// notesPerBatch bounds how much of other requests' audit one step carries.
	notesPerBatch = 64
	// noteFlushEvery is how long a note waits if no step carries it.
	noteFlushEvery = time.Second
)

type note struct {
	code  claim.RegionCode
	key   claim.Key
	seq   uint64
	entry claim.AuditEntry
}

// notes are audit entries that wait for the next batch: a ring of the latest
// maxNotes. A crash loses at most what one flush interval gathered.
type notes struct {
	mu      sync.Mutex
	ring    []note
	head    int // index of the oldest
	count   int
	dropped uint64
	lost    map[claim.RegionCode]uint64 // dropped, and not yet recorded in the audit
}

func (n *notes) add(e note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ring == nil {
		n.ring = make([]note, maxNotes)
	}
	if n.count == maxNotes {
		n.lose(n.ring[n.head].code, 1)
		n.head = (n.head + 1) % maxNotes
		n.count--
	}
	n.ring[(n.head+n.count)%maxNotes] = e
	n.count++
}

// lose counts dropped notes. The caller holds the lock.
func (n *notes) lose(code claim.RegionCode, count uint64) {
	if n.lost == nil {
		n.lost = map[claim.RegionCode]uint64{}
	}
	n.lost[code] += count
	n.dropped += count
}

// takeLost returns, and resets, the counts of dropped notes.
func (n *notes) takeLost() map[claim.RegionCode]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	lost := n.lost
	n.lost = nil
	return lost
}

// take moves up to len(into) of the oldest notes out.
func (n *notes) take(into []note) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	got := min(len(into), n.count)
	for i := range got {
		into[i], n.ring[n.head] = n.ring[n.head], note{}
		n.head = (n.head + 1) % maxNotes
	}
	n.count -= got
	return got
}

// ride adds some waiting notes to a batch that is about to be committed anyway.
func (n *notes) ride(b *pebble.Batch, s *scratch) error {
	if n.empty() {
		return nil // usually; the room for notes below is 10 KB of stack
	}
	return n.board(b, s)
}

func (n *notes) board(b *pebble.Batch, s *scratch) error {
	var some [notesPerBatch]note
	for _, e := range some[:n.take(some[:])] {
		if err := appendAudit(b, s, e.code, e.key, e.seq, &e.entry); err != nil {
			return err
		}
	}
	return nil
}

func (n *notes) empty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count == 0
}

// drain adds all waiting notes to b, and how many were lost before. It drops a note
// that cannot be encoded.
func (n *notes) drain(db *DB, b *pebble.Batch) {
	s := scratches.Get().(*scratch)
	defer s.release()
	for code, count := range n.takeLost() {
		e := claim.AuditEntry{At: db.clock.now(), Event: claim.EventRepliesLost, Detail: strconv.FormatUint(count, 10)}
		for _, r := range db.order {
			if r.Code == code {
				e.Region = r.Name
			}
		}
		if err := appendAudit(b, s, code, claim.Key{}, db.seq.Add(1), &e); err != nil {
			db.log.Error("store: an audit note was dropped", "error", err)
		}
	}
	var some [notesPerBatch]note
	for {
		got := n.take(some[:])
		if got == 0 {
			return
		}
		for _, e := range some[:got] {
			if err := appendAudit(b, s, e.code, e.key, e.seq, &e.entry); err != nil {
				db.log.Error("store: an audit note was dropped", "error", err)
			}
		}
	}
}

func appendAudit(b *pebble.Batch, s *scratch, code claim.RegionCode, key claim.Key, seq uint64, e *claim.AuditEntry) error {
	s.key = binary.BigEndian.AppendUint64(appendAuditPrefix(s.key[:0], code, key), seq)
	s.value = appendAuditEntry(s.value[:0], e, 0)
	return b.Set(s.key, s.value, nil)
}

// AppendAudit implements [audit.Store].
func (v *View) AppendAudit(ctx context.Context, home string, key claim.Key, e claim.AuditEntry) error {
	if err := checkKey(key); err != nil {
		return err
	}
	code, err := v.reach(ctx, home)
	if err != nil {
		return err
	}
	if err := v.db.enter(ctx); err != nil {
		return err
	}
	defer v.db.leave()
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	e.At = v.db.clock.now()
	if err := appendAudit(b, s, code, key, v.db.seq.Add(1), &e); err != nil {
		return unavailable(err)
	}
	return v.db.commit(b, pebble.Sync)
}

// flushNotes writes the waiting notes without waiting for the disk.
func (db *DB) flushNotes() {
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	db.notes.drain(db, b)
	if err := db.commit(b, pebble.NoSync); err != nil {
		db.log.Error("store: audit notes were dropped", "error", err)
	}
}

func (db *DB) flushNotesEvery(ctx context.Context, every time.Duration) {
	defer close(db.stopped)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if db.broken.Load() == nil {
				if caught := fault.Caught(db.flushNotes); caught != nil {
					db.log.Error("store: the audit note writer panicked; the store retries it", "fault", caught)
				}
				if err := db.flushed.drop(); err != nil {
					db.backgroundError(err)
				}
			}
		}
	}
}

// DroppedNotes counts the audit notes lost because the disk could not keep up.
func (db *DB) DroppedNotes() uint64 {
	db.notes.mu.Lock()
	defer db.notes.mu.Unlock()
	return db.notes.dropped
}
