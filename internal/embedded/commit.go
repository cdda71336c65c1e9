package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"google.golang.org/protobuf/proto"

	"github.com/homeward-io/homeward/claim"
)

// commit applies b. With pebble.Sync it returns when b is durable; commits of
// concurrent callers share one sync. An empty batch costs nothing.
func (db *DB) commit(b *pebble.Batch, opts *pebble.WriteOptions) (err error) {
	if b.Empty() {
		return nil
	}
	// Pebble panics if it cannot continue (a log that cannot be rotated). For a request
	// that is one more way to get no answer.
	defer func() {
		if p := recover(); p != nil {
			db.fail(fmt.Errorf("%v", p))
			err = *db.broken.Load()
		}
	}()
	// Before the commit, after which Pebble keeps a large batch and empties b. It writes the
	// sequence number into these bytes.
	repr := b.Repr()
	if opts == pebble.Sync {
		db.waiting.Add(1)
		defer db.waiting.Add(-1)
	}
	if err := b.Commit(opts); err != nil {
		return unavailable(err)
	}
	db.wrote(repr)
	// Pebble reports a failed log through its logger and then returns nil.
	if p := db.broken.Load(); p != nil {
		return *p
	}
	return nil
}

// wrote updates the memory with a batch's writes, before the locks of its rows are
// free.
func (db *DB) wrote(repr []byte) {
	head, _ := batchrepr.ReadHeader(repr)
	last := uint64(head.SeqNum) + uint64(head.Count) - 1
	defer db.flushed.returned(last)
	for rows := batchrepr.Read(repr); ; {
		kind, key, value, ok, err := rows.Next()
		if err != nil {
			panic(err) // Pebble has just applied it
		}
		if !ok {
			return
		}
		switch {
		case len(key) == 0: // of LogData
		case key[0] == events.line:
			db.lines.wrote(kind, key)
		case key[0] == providerCalls.row:
			if c := db.calls[claim.RegionCode(binary.BigEndian.Uint16(key[1:]))]; c != nil {
				c.wrote(kind, key, value)
			}
		case isDue[key[0]]:
			if ds := db.dues[dueTable{key[0], claim.RegionCode(binary.BigEndian.Uint16(key[1:]))}]; ds != nil {
				ds.wrote(kind, key, value)
			}
		default:
			db.flushed.wrote(last, key)
		}
	}
}

// syncEvery is how long after a sync of the log the next one may begin: longer, the more
// commits wait, so that more of them share one. Every sync costs the same, to the disk and
// to both cores. Few commits wait for nothing.
func (db *DB) syncEvery() time.Duration {
	n := db.waiting.Load()
	if n < syncAlone {
		return 0
	}
	return min(time.Duration(n)*syncShare, syncLongest)
}

func unavailable(err error) error {
	return fmt.Errorf("%w: %s", claim.ErrUnavailable, oneLine(err))
}

// fail makes the store refuse everything from now on and calls Config.Fatal. The failed
// write may or may not be in the log: nobody got an acknowledgement.
func (db *DB) fail(cause error) {
	db.fatalOnce.Do(func() {
		what := "cannot be written; check the disk and start again"
		if errors.Is(cause, syscall.ENOSPC) {
			what = "is on a full disk; free some space and start again"
		}
		err := fmt.Errorf("%w: the store directory %s, nothing acknowledged is lost (%s)", claim.ErrUnavailable, what, oneLine(cause))
		db.broken.Store(&err)
		if db.fatal == nil {
			db.log.Error("store failed", "error", err)
			return
		}
		db.fatal(err) // the process that ends logs the reason
	})
}

// backgroundError receives failed flushes and compactions. Pebble retries them at once
// and without end, which on a full disk is a busy loop that blocks every request, so
// that ends the store; others are logged now and then.
func (db *DB) backgroundError(cause error) {
	if errors.Is(cause, syscall.ENOSPC) {
		db.fail(cause)
		return
	}
	db.complain.Do(func() {
		db.log.Error("store: background work fails and is retried", "error", oneLine(cause))
	})
}

// pebbleLogger routes Pebble's messages: most to debug, and its fatal errors to
// [DB.fail].
type pebbleLogger struct{ db *DB }

func (l *pebbleLogger) Infof(format string, args ...any) {
	if !l.db.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	l.db.log.Debug("pebble", "message", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.db.log.Error("pebble", "message", fmt.Sprintf(format, args...))
}

func (l *pebbleLogger) Fatalf(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			l.db.fail(err)
			return
		}
	}
	l.db.fail(fmt.Errorf(format, args...))
}

// presence is a reader's expectation. It selects get or probe, and changes only the
// cost.
type presence bool

const (
	// expected: the row was written recently, and will be found in memory.
	expected presence = true
	// perhaps: it may well be absent.
	perhaps presence = false
)

// get reads one row; read is called with its value, which it must not keep.
func (db *DB) get(key []byte, read func(value []byte) error) (found bool, err error) {
	value, closer, err := db.pebble.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, unavailable(err)
	}
	err = read(value)
	if cerr := closer.Close(); err == nil && cerr != nil {
		err = unavailable(cerr)
	}
	return err == nil, err
}

// probeOptions make Pebble ask the filters of the lowest level too, where most
// rows are. Get does not: it reads a data block there for every absent key.
var probeOptions = pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsOnly, UseL6Filters: true}

// probe is get for a row that is as likely absent as present, of one of the tables in
// probed. The caller holds the lock under which the row is written. Absence costs no
// data block, presence a microsecond more than in get.
func (db *DB) probe(key []byte, read func(value []byte) error) (found bool, err error) {
	it, w, err := db.flushed.look(db.pebble, key)
	switch {
	case err != nil:
		return false, err
	case w == inMemory:
		return db.get(key, read)
	case w == anywhere:
		return db.probeAll(key, read)
	}
	found, err = seek(it.Iterator, key, read)
	if err != nil {
		_ = it.Close() // it may log more
		return false, err
	}
	db.flushed.end(key, it)
	return found, nil
}

// probeAll is probe if nothing is known about recent writes.
func (db *DB) probeAll(key []byte, read func(value []byte) error) (found bool, err error) {
	it, err := db.pebble.NewIter(&probeOptions)
	if err != nil {
		return false, unavailable(err)
	}
	found, err = seek(it, key, read)
	if cerr := it.Close(); err == nil && cerr != nil {
		err = unavailable(cerr)
	}
	return found && err == nil, err
}

// seek reads the row of key through it.
func seek(it *pebble.Iterator, key []byte, read func(value []byte) error) (found bool, err error) {
	// Keys have no suffix, so the prefix is the whole key and only it can match.
	if !it.SeekPrefixGE(key) {
		if err := it.Error(); err != nil {
			return false, unavailable(err)
		}
		return false, nil
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return false, unavailable(err)
	}
	return true, read(value)
}

// scan calls row for the rows in [from, to) in order until it returns false or
// an error. key and value must not be kept.
func (db *DB) scan(from, to []byte, row func(key, value []byte) (more bool, err error)) error {
	it, err := db.pebble.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return unavailable(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			break // Close reports it again
		}
		more, err := row(it.Key(), value)
		if err != nil {
			_ = it.Close()
			return err
		}
		if !more {
			break
		}
	}
	if err := it.Close(); err != nil {
		return unavailable(err)
	}
	return nil
}

// afterScan makes the result of a scan without locks durable before it is returned: an
// entry of its own in the log, which is synced with everything before it.
func (db *DB) afterScan() error {
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := b.LogData([]byte{0}, nil); err != nil {
		return unavailable(err)
	}
	return db.commit(b, pebble.Sync)
}

// scratch holds the buffers for the keys and values of one step.
type scratch struct{ key, value []byte }

var scratches = sync.Pool{New: func() any { return &scratch{key: make([]byte, 0, 512), value: make([]byte, 0, 2048)} }}

// maxScratch keeps one huge response from pinning its buffer in the pool.
const maxScratch = 64 << 10

func (s *scratch) release() {
	if cap(s.value) <= maxScratch {
		scratches.Put(s)
	}
}

// set marshals m as the value of key into b. The batch copies both.
func (s *scratch) set(b *pebble.Batch, key []byte, m proto.Message) error {
	var err error
	if s.value, err = (proto.MarshalOptions{}).MarshalAppend(s.value[:0], m); err != nil {
		return fmt.Errorf("embedded: encode a row: %w", err)
	}
	return b.Set(key, s.value, nil)
}
