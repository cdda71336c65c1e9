package embedded

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// Begin implements [claim.Store].
func (v *View) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	if begun, known, err := v.recall(ctx, &a); known || err != nil {
		return begun, err
	}
	first := firstPin{mint: a.Mint.ID}
	if err := v.pinFirst(ctx, &a, &first); err != nil {
		return claim.Begun{}, err
	}
	defer first.release()
	return v.begin(ctx, &a, &first, func(old *claim.Record, sinceAsked time.Duration, now time.Time) (*claim.Record, claim.Effects, claim.Decision, error) {
		return claim.Begin(old, &a, sinceAsked, &v.db.policy, now)
	})
}

// Reattach implements [claim.Store].
func (v *View) Reattach(ctx context.Context, a claim.Arrival, w claim.Witness) (claim.Begun, error) {
	return v.begin(ctx, &a, nil, func(old *claim.Record, sinceAsked time.Duration, now time.Time) (*claim.Record, claim.Effects, claim.Decision, error) {
		return claim.Reattach(old, &a, &w, sinceAsked, &v.db.policy, now)
	})
}

// arriving is a transition that decides about an arrival.
type arriving func(old *claim.Record, sinceAsked time.Duration, now time.Time) (*claim.Record, claim.Effects, claim.Decision, error)

// begin is step for such a transition.
func (v *View) begin(ctx context.Context, a *claim.Arrival, first *firstPin, t arriving) (claim.Begun, error) {
	var begun claim.Begun
	asked := v.db.clock.now()
	err := v.step(ctx, a.Home, a.Key, perhaps, first, func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error) {
		next, fx, decision, err := t(old, now.Sub(asked), now)
		begun.Decision, begun.Now = decision, now
		switch {
		case next != nil:
			next.LeaseUntil = truncate(next.LeaseUntil)
			begun.Record = *next
		case old != nil && decision != claim.NeedPin:
			begun.Record = *old
		}
		return next, fx, err
	})
	if err != nil {
		return claim.Begun{}, err
	}
	return begun, nil
}

// Settle implements [claim.Store].
func (v *View) Settle(ctx context.Context, held claim.Record, verdict claim.Verdict) (claim.Record, error) {
	jitter := rand.Float64()
	return v.change(ctx, held.Home, held.Key, func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error) {
		return claim.Settle(old, &held, &verdict, &v.db.policy, now, jitter)
	})
}

// TakeOver implements [claim.Store].
func (v *View) TakeOver(ctx context.Context, key claim.Key, home, object, holder, region string) (claim.Record, error) {
	return v.change(ctx, home, key, func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error) {
		return claim.TakeOver(old, object, holder, region, &v.db.policy, now)
	})
}

// transition is a pure transition of package claim, bound to its event.
type transition func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error)

// change is step for transitions that end in a row; it returns that.
func (v *View) change(ctx context.Context, home string, key claim.Key, t transition) (claim.Record, error) {
	var stored claim.Record
	err := v.step(ctx, home, key, expected, nil, func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error) {
		next, fx, err := t(old, now)
		if next != nil {
			next.LeaseUntil = truncate(next.LeaseUntil) // a back-off is any fraction
			stored = *next
		}
		return next, fx, err
	})
	if err != nil {
		return claim.Record{}, err
	}
	return stored, nil
}

// step is the one write path of a claim: travel to its home, lock the row, read it,
// apply t, make the new row and its effects durable in one batch, unlock. A first pin
// of the key is in the batch; if t changes nothing, it is written alone.
func (v *View) step(ctx context.Context, home string, key claim.Key, p presence, first *firstPin, t transition) error {
	if err := checkKey(key); err != nil {
		return err
	}
	code, err := v.reach(ctx, home)
	if err != nil {
		return err
	}
	if !first.taken() { // else pinFirst has entered
		if err := v.db.enter(ctx); err != nil {
			return err
		}
		defer v.db.leave()
	}
	stripe := v.db.rows.index(code, key)
	lock := &v.db.rows.mu[stripe]
	lock.Lock()
	defer lock.Unlock()

	var old *claim.Record
	known := v.db.flights.of(stripe, code, key)
	if known != nil {
		old = &known.rec
	} else {
		known = &flight{}
		if old, known.audit, err = v.db.lookClaim(p, home, code, key); err != nil {
			return err
		}
	}
	next, fx, err := t(old, v.db.clock.now())
	if err == nil && first.taken() && (next == nil || next == old) {
		return v.db.putPin(first.code, &first.pin)
	}
	if err != nil || next == nil || next == old {
		return err // nothing changes
	}
	if fx.Post != nil {
		defer v.db.lockBooks(code, fx.Post)()
	}
	if fx.Unpaid != nil {
		defer v.db.lockUnpaid(code, fx.Unpaid.Object)()
	}
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if first.taken() {
		if err := putPinRow(b, first.code, &first.pin); err != nil {
			return err
		}
	}
	audit, err := v.db.putStep(b, code, old, next, &fx, known)
	if err != nil {
		return err
	}
	if err := v.db.commit(b, pebble.Sync); err != nil {
		return err
	}
	since := uint64(0)
	if first != nil && first.mint == next.Minted.ID {
		since = uint64(b.SeqNum())
	}
	v.db.flights.stepped(stripe, code, old, next, &fx, audit, since)
	v.db.answered.stepped(stripe, code, next)
	return nil
}

// Renew implements [claim.Store]. It is one step for all homes: if one of them is
// unreachable nothing is renewed.
func (v *View) Renew(ctx context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	homes := make([]string, len(leases))
	codes := make([]claim.RegionCode, len(leases))
	indexes := make([]int, len(leases))
	for i, l := range leases {
		if err := checkKey(l.Key); err != nil {
			return nil, err
		}
		code, err := v.code(l.Home)
		if err != nil {
			return nil, err
		}
		homes[i], codes[i], indexes[i] = l.Home, code, v.db.rows.index(code, l.Key)
	}
	if err := v.reachAll(ctx, homes); err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	defer v.db.rows.lockAll(indexes)()

	now := v.db.clock.now()
	held := make([]bool, len(leases))
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	s := scratches.Get().(*scratch)
	defer s.release()
	for i, l := range leases {
		old, audit, err := v.db.lookClaim(expected, l.Home, codes[i], l.Key)
		if err != nil {
			return nil, err
		}
		next, err := claim.Renew(old, holder, l.Fence, &v.db.policy, now)
		if err != nil {
			continue // fenced off: the only error there is
		}
		held[i] = true
		v.db.flights.forget(v.db.rows.index(codes[i], l.Key))
		s.key = appendScoped(s.key[:0], tableClaim, codes[i], l.Key.Tenant, l.Key.Value)
		s.value = append(appendClaim(s.value[:0], next), audit...)
		if err := b.Set(s.key, s.value, nil); err != nil {
			return nil, unavailable(err)
		}
		// The outbox row stays due as it was: a worker that takes it meets the
		// lease and postpones it. Moving it would double the heartbeat's cost.
	}
	if err := v.db.commit(b, pebble.Sync); err != nil {
		return nil, err
	}
	return held, nil
}

// Get implements [claim.Store].
func (v *View) Get(ctx context.Context, key claim.Key, home string) (claim.Record, time.Time, bool, error) {
	if err := checkKey(key); err != nil {
		return claim.Record{}, time.Time{}, false, err
	}
	code, err := v.reach(ctx, home)
	if err != nil {
		return claim.Record{}, time.Time{}, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Record{}, time.Time{}, false, err
	}
	defer v.db.leave()
	rec, err := v.db.readSynced(home, code, key)
	if err != nil || rec == nil {
		return claim.Record{}, v.db.clock.now(), false, err
	}
	return *rec, v.db.clock.now(), true, nil
}

// readClaim reads one row, nil if there is none. The caller holds its lock.
func (db *DB) readClaim(home string, code claim.RegionCode, key claim.Key) (*claim.Record, error) {
	rec, _, err := db.lookClaim(perhaps, home, code, key)
	return rec, err
}

// lookClaim is readClaim with the row's audit, for callers with an expectation about
// its presence.
func (db *DB) lookClaim(p presence, home string, code claim.RegionCode, key claim.Key) (rec *claim.Record, audit string, err error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.key = appendScoped(s.key[:0], tableClaim, code, key.Tenant, key.Value)
	read := func(value []byte) error {
		rec, audit, err = decodeClaim(home, key, value)
		return err
	}
	if p == expected {
		_, err = db.get(s.key, read)
	} else {
		_, err = db.probe(s.key, read)
	}
	// The row may be of a step whose sync has just failed: do not return it.
	if broken := db.broken.Load(); err == nil && broken != nil {
		return nil, "", *broken
	}
	return rec, audit, err
}

// readSynced is readClaim for readers without the lock. Pebble shows a commit
// before its sync is through; the lock is what makes a reader wait for that.
func (db *DB) readSynced(home string, code claim.RegionCode, key claim.Key) (*claim.Record, error) {
	lock := db.rows.of(code, key)
	lock.RLock()
	defer lock.RUnlock()
	return db.readClaim(home, code, key)
}

// maxRowAudit is how many bytes of audit a claim's row carries, of its some 1,000: as
// much as four attempts leave. Each step of the claim writes all of it again.
const maxRowAudit = 512

// putStep writes a transition: the row, the indexes and every effect. Waiting notes are
// added to the batch. The caller holds the row's lock, and passes what it knows of old.
// It returns the audit of the new row.
func (db *DB) putStep(b *pebble.Batch, code claim.RegionCode, old, next *claim.Record, fx *claim.Effects, known *flight) (audit string, err error) {
	// The SQL store's tables check the same: retries of a final claim need an answer.
	if next.State.Final() && (next.Response == nil || !next.Response.Sendable()) {
		return "", fmt.Errorf("%w: %s would be %v", claim.ErrNoResponse, next.Minted.ID, next.State)
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	key, reborn := next.Key, old != nil && old.Minted.ID != next.Minted.ID
	audit = known.audit
	if reborn || len(audit) > maxRowAudit {
		if err := moveAudit(b, s, code, key, audit); err != nil {
			return "", err
		}
		audit = ""
	}
	s.key = appendScoped(s.key[:0], tableClaim, code, key.Tenant, key.Value)
	s.value = appendClaim(s.value[:0], next)
	from := len(s.value)
	s.value = append(s.value, audit...)
	for i := range fx.Audit {
		s.value = appendClaimAudit(s.value, &fx.Audit[i], db.seq.Add(1))
	}
	if fx.Enqueue != nil { // nobody else asks for it
		audit = string(s.value[from:])
	}
	if err := b.Set(s.key, s.value, nil); err != nil {
		return "", unavailable(err)
	}
	if err := db.putObject(b, s, code, old, next, fx); err != nil {
		return "", err
	}
	if err := db.putOutbox(b, s, code, old, next, fx, known); err != nil {
		return "", err
	}
	if err := db.putEffects(b, s, code, next, fx, known); err != nil {
		return "", err
	}
	return audit, db.notes.ride(b, s)
}

// moveAudit moves the audit of a claim's row to rows of its own, which stay when the
// claim is deleted.
func moveAudit(b *pebble.Batch, s *scratch, code claim.RegionCode, key claim.Key, audit string) error {
	err := auditEntries(audit, func(seq uint64, value []byte) error {
		s.key = binary.BigEndian.AppendUint64(appendAuditPrefix(s.key[:0], code, key), seq)
		return b.Set(s.key, value, nil)
	})
	if err != nil {
		return damaged("audit of a claim of", key.Tenant, err)
	}
	return nil
}

// putOutbox writes a transition's changes to its own outbox row.
func (db *DB) putOutbox(b *pebble.Batch, s *scratch, code claim.RegionCode, old, next *claim.Record, fx *claim.Effects, known *flight) error {
	if fx.Enqueue == nil && fx.Reschedule.IsZero() && !fx.Finish {
		return nil
	}
	// A claim's first message has an id of its own, and that of a released one is gone, so
	// only a claim in flight has an old row: its witness continues it.
	if fx.Enqueue != nil && !flying(old) {
		return db.putMessage(b, s, providerCalls, code, nil, fx.Enqueue)
	}
	if fx.Finish && known.rec.Minted.ID == next.Minted.ID {
		// Only Begin has set it, once, as SingleDelete requires: usually the pair is
		// gone before a table is written.
		s.key = appendMessage(s.key[:0], providerCalls.row, code, next.Minted.ID)
		return b.SingleDelete(s.key, nil)
	}
	row, err := db.readMessage(providerCalls, next.Home, code, next.Minted.ID)
	switch {
	case err != nil:
		return err
	case fx.Enqueue != nil:
		return db.putMessage(b, s, providerCalls, code, row, fx.Enqueue)
	case row == nil:
		return nil
	case fx.Finish:
		return db.putMessage(b, s, providerCalls, code, row, nil)
	default:
		moved := *row
		moved.Due = fx.Reschedule
		return db.putMessage(b, s, providerCalls, code, row, &moved)
	}
}

// putEffects writes the other effects of a settlement. The caller holds the lock of the
// claim, and that of the posting's id.
func (db *DB) putEffects(b *pebble.Batch, s *scratch, code claim.RegionCode, next *claim.Record, fx *claim.Effects, known *flight) error {
	home := next.Home
	if fx.Post != nil {
		if err := fx.Post.Validate(); err != nil {
			return fmt.Errorf("%w: %w", claim.ErrUnstorable, err)
		}
		s.key = appendMessage(s.key[:0], tableLedger, code, fx.Post.ID)
		if !known.minted(fx.Post.ID) || !db.flushed.unwritten(s.key, known.since) {
			there, err := db.readTransaction(home, code, fx.Post.ID)
			if err != nil {
				return err
			}
			if there != nil {
				return fmt.Errorf("%w: %s is booked already, at %v", ledger.ErrConflict, there.ID, there.At)
			}
		}
		switch as, err := db.arrived(code, fx.Post); {
		case err != nil:
			return err
		case as != "":
			return fmt.Errorf("%w: %s is booked already, as %s", ledger.ErrConflict, fx.Post.ProviderRef, as)
		}
		key := ""
		if names(fx.Post, next) {
			key = next.Key.Value
		}
		if err := putTransaction(b, s, code, fx.Post, key); err != nil {
			return err
		}
	}
	if fx.Unpaid != nil {
		s.key = appendScoped(s.key[:0], tableUnpaid, code, "", fx.Unpaid.Object)
		if err := s.set(b, s.key, unpaidToProto(fx.Unpaid)); err != nil {
			return err
		}
	}
	if len(fx.Events) > 0 {
		if err := db.appendEvents(b, s, code, fx.Events); err != nil {
			return err
		}
	}
	if fx.Expiry == nil {
		return nil
	}
	there, err := db.readMessage(expiries, home, code, fx.Expiry.ID)
	if err != nil || there != nil {
		return err
	}
	return db.putMessage(b, s, expiries, code, nil, fx.Expiry)
}

// Settled lists up to limit claims of home that are not in flight, after a key and in
// the order of keys: by tenant, then by value, byte for byte. It leaves out responses.
func (v *View) Settled(ctx context.Context, home string, after claim.Key, limit int) ([]claim.Record, error) {
	code, err := v.reach(ctx, home)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	if limit <= 0 {
		return nil, nil
	}
	prefix := appendRegion(nil, tableClaim, code)
	from := prefix
	if after != (claim.Key{}) {
		from = append(appendScoped(nil, tableClaim, code, after.Tenant, after.Value), 0) // the next possible key
	}
	var settled []claim.Record
	err = v.db.scan(from, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		_, key, ok := readScoped(k)
		if !ok {
			return false, damaged("claim", string(k), errors.New("its key is truncated"))
		}
		rec, _, err := decodeClaim(home, key, value)
		if err != nil {
			return false, err
		}
		if rec.State != claim.InFlight {
			rec.Response = nil
			settled = append(settled, *rec)
		}
		return len(settled) < limit, ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return settled, v.db.afterScan()
}

// Note implements [claim.Store]. The entry waits in memory, at most a second, for the
// next batch. A note for another home travels with later traffic and is not charged a
// round trip of its own.
func (v *View) Note(ctx context.Context, key claim.Key, home string, e claim.AuditEntry) {
	code, err := v.code(home)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		v.db.log.WarnContext(ctx, "store: an audit note names no claim", "error", err, "event", e.Event)
		return
	}
	if e.At.IsZero() {
		e.At = v.db.clock.now()
	}
	v.db.notes.add(note{code: code, key: key, seq: v.db.seq.Add(1), entry: e})
}

// Timeline implements [claim.Store].
func (v *View) Timeline(ctx context.Context, key claim.Key, home string, limit int) ([]claim.AuditEntry, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	code, err := v.reach(ctx, home)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	v.db.flushNotes() // so that the caller reads its own notes
	lock := v.db.rows.of(code, key)
	lock.RLock()
	defer lock.RUnlock()

	_, kept, err := v.db.lookClaim(perhaps, home, code, key)
	if err != nil {
		return nil, err
	}
	type line struct {
		seq   uint64
		entry claim.AuditEntry
	}
	var lines []line
	add := func(seq uint64, value []byte) error {
		e, err := decodeAudit(key, value)
		lines = append(lines, line{seq, e})
		return err
	}
	if err := auditEntries(kept, add); err != nil {
		return nil, err
	}
	ofRow := len(lines)
	prefix := appendAuditPrefix(nil, code, key)
	it, err := v.db.pebble.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return nil, unavailable(err)
	}
	for ok := it.Last(); ok && len(lines) < ofRow+limit; ok = it.Prev() {
		value, err := it.ValueAndErr()
		if err != nil {
			break // Close reports it again
		}
		if len(it.Key()) != len(prefix)+8 {
			err = damaged("audit row of", key.Tenant, errCutShort)
		} else {
			err = add(binary.BigEndian.Uint64(it.Key()[len(prefix):]), value)
		}
		if err != nil {
			_ = it.Close()
			return nil, err
		}
	}
	if err := it.Close(); err != nil {
		return nil, unavailable(fmt.Errorf("read the timeline: %w", err))
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.seq, b.seq) })
	var entries []claim.AuditEntry
	for _, l := range lines[max(0, len(lines)-max(0, limit)):] {
		entries = append(entries, l.entry)
	}
	return entries, nil
}
