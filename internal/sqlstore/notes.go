package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
)

const (
	// maxNotes bounds the notes in memory: two seconds' worth at 4,000 replies a
	// second, some 2 MB. Beyond it the oldest are dropped and counted.
	maxNotes = 8192
	// notesPerStatement keeps one insertion far below the statement time-out.
	notesPerStatement = 512
	// noteFlushEvery is how long a note waits at most.
	noteFlushEvery = time.Second
)

type note struct {
	id    uuid.UUID
	key   claim.Key
	home  string
	noted time.Time // local and monotonic: how long it has waited
	entry claim.AuditEntry
}

// notes are audit entries that wait to be written. A crash, or a long outage of the
// database, loses some; no decision depends on them.
type notes struct {
	// flushing holds a token while one goroutine writes: one at a time, so that a
	// reader finds its own notes.
	flushing chan struct{}

	mu      sync.Mutex
	waiting []note
	lost    map[notesOf]uint64 // dropped, and not yet recorded in the audit
}

// notesOf are the notes of one node on the keys of a home.
type notesOf struct{ home, region, node string }

func (n *notes) add(e note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) >= maxNotes {
		n.drop(n.waiting[:notesPerStatement])
		n.waiting = slices.Delete(n.waiting, 0, notesPerStatement)
	}
	n.waiting = append(n.waiting, e)
}

// drop counts dropped notes. The caller holds the lock.
func (n *notes) drop(some []note) {
	if n.lost == nil {
		n.lost = map[notesOf]uint64{}
	}
	for i := range some {
		e, count := &some[i].entry, uint64(1)
		if e.Event == claim.EventRepliesLost { // the note with their number is lost again
			count, _ = strconv.ParseUint(e.Detail, 10, 64)
		}
		n.lost[notesOf{some[i].home, e.Region, e.Node}] += count
	}
}

// sayLost adds a note with the number of lost ones.
func (n *notes) sayLost() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for of, count := range n.lost {
		n.waiting = append(n.waiting, note{id: newEntry(), home: of.home, noted: time.Now(), entry: claim.AuditEntry{
			Event: claim.EventRepliesLost, Region: of.region, Node: of.node, Detail: strconv.FormatUint(count, 10),
		}})
	}
	n.lost = nil
}

func (n *notes) first() []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.waiting[:min(len(n.waiting), notesPerStatement)])
}

// written removes written ones that still wait.
func (n *notes) written(some []note) {
	ids := make(map[uuid.UUID]bool, len(some))
	for i := range some {
		ids[some[i].id] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = slices.DeleteFunc(n.waiting, func(e note) bool { return ids[e.id] })
}

// Note implements [claim.Store]. The entry is written within about a second,
// together with others.
func (v *View) Note(_ context.Context, key claim.Key, home string, e claim.AuditEntry) {
	v.db.notes.add(note{id: newEntry(), key: key, home: home, noted: time.Now(), entry: e})
}

// AppendAudit implements [audit.Store].
func (v *View) AppendAudit(ctx context.Context, home string, key claim.Key, e claim.AuditEntry) error {
	ctx, err := v.reach(ctx, home)
	if err != nil {
		return err
	}
	e.At = time.Time{}
	some := []note{{id: newEntry(), key: key, home: home, noted: time.Now(), entry: e}}
	_, _, err = affected(ctx, v.db, noteEntries, once, noteArgs(some, func(time.Time) time.Duration { return 0 }))
	return claimError(noteEntries.name, err)
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
			if caught := fault.Caught(func() { db.flushNotes(ctx) }); caught != nil {
				db.log.Error("the audit note writer panicked; the node retries it", "fault", caught)
			}
		}
	}
}

// flushNotes writes the waiting notes until there are none or one batch fails, which
// then waits for the next flush.
func (db *DB) flushNotes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, db.limits.CallTimeout)
	defer cancel()
	select {
	case db.notes.flushing <- struct{}{}:
		defer func() { <-db.notes.flushing }()
	case <-ctx.Done():
		return
	}
	db.notes.sayLost()
	for {
		some := db.notes.first()
		if len(some) == 0 {
			return
		}
		// Its key has the entry's id and, if that is given, its time; a note without a
		// time may be written twice if a reply is lost, which the audit tolerates.
		if _, _, err := affected(ctx, db, noteEntries, once, noteArgs(some, db.since)); err != nil {
			if ctx.Err() == nil {
				db.log.Warn("audit notes wait for the database", "waiting", len(some), "error", err)
			}
			return
		}
		db.notes.written(some)
	}
}

var (
	noteEntries = declare[notesArgs]("note")
	timeline    = declare[keyPageArgs]("timeline")
)

type (
	notesArgs struct{ Entries []noteRow }
	noteRow   struct {
		keyArgs
		At     zeronull.Timestamptz
		Waited time.Duration
		placedEntry
		Fence      int64
		Generation int32
	}
)

func noteArgs(some []note, since func(time.Time) time.Duration) notesArgs {
	args := notesArgs{make([]noteRow, len(some))}
	for i := range some {
		n := &some[i]
		args.Entries[i] = noteRow{
			keyArgs: keyIn(n.home, n.key), At: zeronull.Timestamptz(n.entry.At), Waited: since(n.noted).Truncate(time.Microsecond),
			placedEntry: placedEntryOf(n.id, &n.entry), Fence: int64(n.entry.Fence), Generation: int32(n.entry.Generation),
		}
	}
	return args
}

// Timeline implements [claim.Store].
func (v *View) Timeline(ctx context.Context, key claim.Key, home string, limit int) ([]claim.AuditEntry, error) {
	ctx, err := v.reach(ofTenant(ctx, key.Tenant), home)
	if err != nil {
		return nil, err
	}
	v.db.flushNotes(ctx) // so that the caller reads its own notes
	rows, err := many(ctx, v.db, timeline, repeatable, keyPageArgs{keyIn(home, key), int64(limit)},
		func(row pgx.CollectableRow) (r auditLines, err error) { return r, row.Scan(r.targets()...) })
	if err != nil {
		return nil, claimError(timeline.name, err)
	}
	var lines []auditLine
	for i := range rows {
		lines = append(lines, rows[i].all()...)
	}
	slices.SortFunc(lines, func(a, b auditLine) int { return cmp.Or(a.At.Compare(b.At), bytes.Compare(a.id[:], b.id[:])) })
	var all []claim.AuditEntry
	for _, l := range lines[max(0, len(lines)-limit):] {
		all = append(all, l.AuditEntry)
	}
	return all, nil
}
