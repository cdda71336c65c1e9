package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	"github.com/homeward-io/homeward/claim"
)

// tx is one call on the store: it takes locks, reads rows, and gathers writes. At its end it
// commits them in one batch, and then frees the locks. It keeps its first error: from then on it
// finds nothing, and at its end it returns the error and commits nothing. So a step may read row
// after row and check no error before it ends.
type tx struct {
	*DB
	// region and code are those of the rows of the call, if they have a region.
	region string
	code   claim.RegionCode
	*call
}

type call struct {
	ctx   context.Context
	batch *pebble.Batch
	opts  *pebble.WriteOptions // how it commits: pebble.Sync unless a step sets it
	err   error
	locks []sync.Locker
	done  []func()
	// points is what reads of one row share while shares is set, see tx.share.
	shares bool
	points *pebble.Iterator
}

// do runs a call. What run wrote is durable when do returns nil; Pebble lets concurrent
// commits share a sync. A call that wrote nothing commits nothing.
func (db *DB) do(ctx context.Context, run func(t *tx)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.closeMu.RLock()
	defer db.closeMu.RUnlock()
	if db.closed {
		return fmt.Errorf("%w: it is closed", claim.ErrUnavailable)
	}
	return db.run(ctx, run)
}

func (db *DB) run(ctx context.Context, run func(t *tx)) error {
	if p := db.broken.Load(); p != nil {
		return *p
	}
	t := &tx{DB: db, call: &call{ctx: ctx, batch: db.pebble.NewBatch(), opts: pebble.Sync}}
	defer func() {
		t.unshare()
		for _, l := range slices.Backward(t.locks) {
			l.Unlock()
		}
		_ = t.batch.Close()
	}()
	run(t)
	t.unshare()
	if t.err == nil && !t.batch.Empty() {
		if err := t.batch.Commit(t.opts); err != nil {
			t.fail(unavailable(err))
		}
	}
	// Pebble does not know of a failed log. A row that was read may be of a step whose sync has just
	// failed, too.
	if p := db.broken.Load(); p != nil {
		return *p
	}
	if t.err == nil {
		for _, f := range t.done {
			f()
		}
	}
	return t.err
}

// then runs f once what the call wrote is durable, under its locks.
func (t *tx) then(f func()) { t.done = append(t.done, f) }

// in is do on the rows of a region.
func (db *DB) in(ctx context.Context, region string, run func(t *tx)) error {
	code, err := db.codeOf(region)
	if err != nil {
		return err
	}
	return db.do(ctx, func(t *tx) {
		t.region, t.code = region, code
		run(t)
	})
}

// of is the same call on the rows of another region.
func (t *tx) of(region string) *tx {
	if region == t.region {
		return t
	}
	code, err := t.DB.codeOf(region)
	t.fail(err)
	return &tx{DB: t.DB, region: region, code: code, call: t.call}
}

func (t *tx) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// hold locks l until the end of the call.
func (t *tx) hold(l sync.Locker) {
	t.unshare()
	l.Lock()
	if t.locks == nil {
		t.locks = make([]sync.Locker, 0, 8) // more than most calls need
	}
	t.locks = append(t.locks, l)
}

// lock holds several locks, in one order so that two calls cannot deadlock.
func (t *tx) lock(l *rowLocks, indexes ...int) {
	slices.Sort(indexes)
	for _, i := range slices.Compact(indexes) {
		t.hold(&l.mu[i])
	}
}

func (t *tx) set(key, value []byte) { t.fail(t.batch.Set(key, value, nil)) }
func (t *tx) delete(key []byte)     { t.fail(t.batch.Delete(key, nil)) }

// put sets a row to a message.
func (t *tx) put(key []byte, m proto.Message) {
	value, err := proto.Marshal(m)
	if err != nil {
		t.fail(fmt.Errorf("embedded: encode a row: %w", err))
	}
	t.set(key, value)
}

// setOnce sets or deletes a row of an index, which is set once before it is deleted, as
// SingleDelete requires. Usually the pair is gone before a table is written, so that a
// scan does not step over what is done.
func (t *tx) setOnce(key, value []byte, set bool) {
	if set {
		t.set(key, value)
		return
	}
	t.fail(t.batch.SingleDelete(key, nil))
}

// durable makes the result of a scan without locks durable before the call returns it: it adds an
// entry to the log, which is synced with everything before it.
func (t *tx) durable() { t.fail(t.batch.LogData([]byte{0}, nil)) }

// oneRow asks the filters of all levels for a row. Pebble's Get leaves out those of the lowest
// one, and reads a block there for each absent row. A new charge looks for five of them.
var oneRow = pebble.IterOptions{UseL6Filters: true}

// share lets the reads of one row that follow use one iterator, until the call takes another lock:
// it finds absent rows for the least. Pebble's Get finds those that are there, as it stops at the
// first level that has one. An iterator shows what was committed when it was made, so what a lock
// guards needs one that is younger than the lock.
func (t *tx) share() { t.shares = true }

func (t *tx) unshare() {
	t.shares = false
	if t.points != nil {
		if err := t.points.Close(); err != nil {
			t.fail(unavailable(err))
		}
		t.points = nil
	}
}

// read calls use with the value of a row, which use must not keep.
func (t *tx) read(key []byte, use func(value []byte) error) (found bool) {
	if t.err != nil {
		return false
	}
	if !t.shares {
		value, closer, err := t.pebble.Get(key)
		switch found = err == nil; {
		case found:
			t.fail(use(value))
			_ = closer.Close() // it only releases the value
		case !errors.Is(err, pebble.ErrNotFound):
			t.fail(unavailable(err))
		}
		return found && t.err == nil
	}
	if t.points == nil {
		it, err := t.pebble.NewIter(&oneRow)
		if err != nil {
			t.fail(unavailable(err))
			return false
		}
		t.points = it
	}
	if it := t.points; it.SeekPrefixGE(key) { // the whole key is its prefix
		value, err := it.ValueAndErr()
		if err != nil {
			t.fail(unavailable(err))
		} else {
			found = true
			t.fail(use(value))
		}
	} else if err := it.Error(); err != nil {
		t.fail(unavailable(err))
	}
	return found && t.err == nil
}

// get reads a row into m.
func (t *tx) get(key []byte, m proto.Message) (found bool) {
	return t.read(key, func(value []byte) error { return decode(key, value, m) })
}

// row reads one row as a value of the domain, nil if there is none. The caller holds its lock.
func row[T any, M any, P interface {
	*M
	proto.Message
}](t *tx, key []byte, from func(P) *T) *T {
	m := P(new(M))
	if !t.get(key, m) {
		return nil
	}
	return from(m)
}

// has reports whether there is a row.
func (t *tx) has(key []byte) bool { return t.read(key, func([]byte) error { return nil }) }

// scan calls see for the rows in [from, to) in order until it returns false. It must keep
// neither key nor value.
func (t *tx) scan(from, to []byte, see func(key, value []byte) (more bool)) {
	t.walk(from, to, (*pebble.Iterator).First, (*pebble.Iterator).Next, see)
}

// scanBack is scan from the last key to the first.
func (t *tx) scanBack(from, to []byte, see func(key, value []byte) (more bool)) {
	t.walk(from, to, (*pebble.Iterator).Last, (*pebble.Iterator).Prev, see)
}

func (t *tx) walk(from, to []byte, first, next func(*pebble.Iterator) bool, see func(key, value []byte) (more bool)) {
	t.iterate(&pebble.IterOptions{LowerBound: from, UpperBound: to}, func(it *pebble.Iterator) error {
		for ok := first(it); ok && t.err == nil; ok = next(it) {
			value, err := it.ValueAndErr()
			if err != nil {
				return unavailable(err)
			}
			if !see(it.Key(), value) {
				break
			}
			if err := t.ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

// each is scan of messages.
func each[M any, P interface {
	*M
	proto.Message
}](t *tx, from, to []byte, see func(key []byte, m P) (more bool)) {
	t.scan(from, to, func(key, value []byte) bool {
		m := P(new(M))
		t.fail(decode(key, value, m))
		return t.err == nil && see(key, m)
	})
}

// page lists up to limit values that read adds; a crash can undo none of them. add ignores nil, and
// reports whether more may follow.
func page[T any](ctx context.Context, v *View, region string, limit int, read func(t *tx, add func(*T) (more bool))) (all []T, err error) {
	err = v.on(ctx, region, func(t *tx) {
		if limit <= 0 {
			return
		}
		read(t, func(row *T) bool {
			if row != nil {
				all = append(all, *row)
			}
			return len(all) < limit
		})
		t.durable()
	})
	return all, err
}

// last returns the last key that starts with prefix, nil if there is none.
func (t *tx) last(prefix []byte) (key []byte) {
	t.iterate(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)}, func(it *pebble.Iterator) error {
		if it.Last() {
			key = slices.Clone(it.Key())
		}
		return nil
	})
	return key
}

func (t *tx) iterate(o *pebble.IterOptions, use func(*pebble.Iterator) error) {
	if t.err != nil {
		return
	}
	it, err := t.pebble.NewIter(o)
	if err != nil {
		t.fail(unavailable(err))
		return
	}
	t.fail(use(it))
	if err := it.Close(); err != nil {
		t.fail(unavailable(err))
	}
}

func decode(key, value []byte, m proto.Message) error {
	if err := proto.Unmarshal(value, m); err != nil {
		return damaged(key, err)
	}
	return nil
}

// valueOf returns the row that a read found, or false for nil.
func valueOf[T any](row *T) (value T, found bool) {
	if row == nil {
		return value, false
	}
	return *row, true
}

// first is the one row of a list that has at most one.
func first[T any](all []T, err error) (row T, found bool, _ error) {
	if len(all) > 0 {
		row, found = all[0], true
	}
	return row, found, err
}

func unavailable(err error) error {
	return fmt.Errorf("%w: %s", claim.ErrUnavailable, oneLine(err))
}

// damaged reports a row that does not decode. The outcome of the caller's write is
// unknown, hence unavailable.
func damaged(key []byte, err error) error {
	return fmt.Errorf("%w: the row %q cannot be decoded (%v); restore the store directory from a backup", claim.ErrUnavailable, key, err)
}

var errTruncated = errors.New("it is truncated")

// fail makes the store refuse everything from now on and calls Config.Fatal. The failed
// write may or may not be in the log: its caller got no acknowledgement.
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
		db.fatal(err) // it logs the reason
	})
}

// backgroundError receives failed flushes and compactions. Pebble retries them at once
// and without end. On a full disk that is a busy loop which blocks every request, so the
// store ends; it logs other failures now and then.
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
	if l.db.log.Enabled(context.Background(), slog.LevelDebug) {
		l.db.log.Debug("pebble", "message", fmt.Sprintf(format, args...))
	}
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
