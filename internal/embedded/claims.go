package embedded

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Begin implements [claim.Store].
func (v *View) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	if a.PinsHere() {
		if err := claim.Pinnable(a.Key); err != nil {
			return claim.Begun{}, err
		}
	}
	return v.begin(ctx, &a, a.PinsHere(), func(old *claim.Record, sinceAsked time.Duration, now time.Time) (*claim.Record, claim.Effects, claim.Decision, error) {
		return claim.Begin(old, &a, sinceAsked, &v.policy, now)
	})
}

// Reattach implements [claim.Store].
func (v *View) Reattach(ctx context.Context, a claim.Arrival, w claim.Witness) (claim.Begun, error) {
	return v.begin(ctx, &a, false, func(old *claim.Record, sinceAsked time.Duration, now time.Time) (*claim.Record, claim.Effects, claim.Decision, error) {
		return claim.Reattach(old, &a, &w, sinceAsked, &v.policy, now)
	})
}

// arriving is a transition that decides about an arrival.
type arriving func(old *claim.Record, underWay time.Duration, now time.Time) (*claim.Record, claim.Effects, claim.Decision, error)

// begin is the step of such a transition. With pins it pins the key in the same batch, if the
// transition lacks nothing else. It does not read a claim that memory has as final and that still
// answers for its key.
func (v *View) begin(ctx context.Context, a *claim.Arrival, pins bool, apply arriving) (begun claim.Begun, err error) {
	asked := v.clock.now()
	sure, doubt := v.clock.age(a.UnderWay)
	a.UnderWay, asked = sure, asked.Add(-doubt)
	if err := v.reach(ctx, a.Home); err != nil {
		return claim.Begun{}, err
	}
	if old, ok := v.finals.Get(finalKey{a.Home, a.Key}); ok {
		answers := false
		if err := v.do(ctx, func(t *tx) {
			begun = claim.Begun{Record: *old, Now: t.clock.now()}
			_, _, begun.Decision, err = apply(old, begun.Now.Sub(asked), begun.Now)
			answers = err == nil && (begun.Decision == claim.Replay || begun.Decision == claim.Mismatch)
		}); err != nil || answers {
			return begun, err
		}
	}
	if err := checkKey(a.Key); err != nil {
		return claim.Begun{}, err
	}
	err = v.in(ctx, a.Home, func(t *tx) {
		if pins {
			t.holdPin(a.Key)
		}
		stored := t.step(a.Key, true, func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error) {
			next, fx, decision, err := apply(old, now.Sub(asked), now)
			if decision == claim.NeedPin && err == nil && pins && t.pinHere(a, now) {
				next, fx, decision, err = apply(old, now.Sub(asked), now)
			}
			begun = claim.Begun{Decision: decision, Now: now}
			if old != nil && decision != claim.NeedPin {
				begun.Record = *old
			}
			return next, fx, err
		})
		if stored != nil {
			begun.Record = *stored
		}
	})
	if err != nil {
		return claim.Begun{}, err
	}
	return begun, nil
}

// Settle implements [claim.Store].
func (v *View) Settle(ctx context.Context, held claim.Record, verdict claim.Verdict) (claim.Record, error) {
	s, err := claim.Settle(&held, &verdict, &v.policy, rand.Float64())
	if err != nil {
		return claim.Record{}, err
	}
	return v.change(ctx, held.Home, held.Key, func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error) {
		return s.On(old, &v.policy, now)
	})
}

// TakeOver implements [claim.Store].
func (v *View) TakeOver(ctx context.Context, key claim.Key, home, object, holder, region string, news claim.News) (claim.Record, error) {
	return v.change(ctx, home, key, func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error) {
		return claim.TakeOver(old, object, holder, region, news, &v.policy, now)
	})
}

// Cancel implements [claim.Store].
func (v *View) Cancel(ctx context.Context, key claim.Key, home, object string, step uuid.UUID, node, region string) (claim.Record, error) {
	return v.change(ctx, home, key, func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error) {
		return claim.Cancel(old, object, step, node, region, now)
	})
}

// transition is a pure transition of package claim, bound to its event.
type transition func(old *claim.Record, now time.Time) (*claim.Record, claim.Effects, error)

// change is the step of a transition that ends in a row, which it returns.
func (v *View) change(ctx context.Context, home string, key claim.Key, apply transition) (claim.Record, error) {
	if err := checkKey(key); err != nil {
		return claim.Record{}, err
	}
	var stored *claim.Record
	if err := v.on(ctx, home, func(t *tx) { stored = t.step(key, false, apply) }); err != nil {
		return claim.Record{}, err
	}
	return *stored, nil
}

// step is the one way by which a claim changes: lock the row, read it, apply the transition,
// write the new row and its effects. It returns the row that the transition returned, which
// may be nil or the old one. With fresh there is probably no row.
func (t *tx) step(key claim.Key, fresh bool, apply transition) *claim.Record {
	t.lock(t.rows, t.rows.index(t.code, key))
	if fresh {
		t.share()
	}
	old, call := t.claimed(key)
	if t.err != nil {
		return nil
	}
	next, fx, err := apply(old, t.clock.now())
	switch t.fail(err); {
	case err != nil:
		return nil
	case next == nil || next == old: // nothing changes
		t.remember(key, old)
		return next
	}
	// The SQL store's tables check the same: retries of a final claim need an answer.
	if next.State.Final() && (next.Response == nil || !next.Response.Sendable()) {
		t.fail(fmt.Errorf("%w: %s would be %v", claim.ErrNoResponse, next.Minted.ID, next.State))
	}
	t.put(t.scoped(tableClaim, key), toClaim(next, t.called(call, &fx)))
	if old == nil || old.Minted.ID != next.Minted.ID {
		t.set(t.key(tableObject, next.Minted.ID), pair(key))
		if old != nil {
			t.delete(t.key(tableObject, old.Minted.ID))
		}
	}
	if was, is := t.reversingKey(old), t.reversingKey(next); !bytes.Equal(was, is) {
		if was != nil {
			t.delete(was)
		}
		if is != nil {
			t.set(is, nil)
		}
	}
	for i := range fx.Audit {
		t.putAudit(key, &fx.Audit[i])
	}
	t.putEffects(&fx)
	return next
}

const (
	// finalClaims is how many final claims memory has: most retries come within seconds.
	finalClaims = 2048
	// finalBody is the longest response of one, in bytes: most have some 600.
	finalBody = 4 << 10
)

type finalKey struct {
	home string
	key  claim.Key
}

// remember keeps a claim as its row was read under its lock, if it is final: such a row does not
// change until its key is free again, which the clock at each reading decides. The budget of
// replays, half the rate of one bare read, needs it.
func (t *tx) remember(key claim.Key, rec *claim.Record) {
	if rec != nil && rec.State.Final() && rec.Response != nil && len(rec.Response.Body) <= finalBody {
		t.finals.Add(finalKey{t.region, key}, rec)
	}
}

// called is a claim's provider call, nil for none, as a transition leaves it. It moves its due row.
func (t *tx) called(was *outbox.Message, fx *claim.Effects) (is *outbox.Message) {
	switch is = was; {
	case fx.Enqueue != nil:
		is = fx.Enqueue
	case fx.Finish:
		is = nil
	case was != nil && !fx.Reschedule.IsZero():
		moved := *was
		moved.Due = fx.Reschedule
		is = &moved
	}
	t.index(providerCalls, was, is)
	return is
}

// putEffects writes the other effects of a settlement.
func (t *tx) putEffects(fx *claim.Effects) {
	locks := t.bookLocks(fx.Post)
	if fx.Unpaid != nil {
		locks = append(locks, t.books.index(t.code, bookOf(fx.Unpaid.Object)))
	}
	t.lock(t.books, locks...)
	t.share()
	if fx.Post != nil && !t.book(fx.Post) {
		t.fail(fmt.Errorf("%w: %s is booked already", ledger.ErrConflict, fx.Post.ID))
	}
	if fx.Unpaid != nil {
		t.put(t.key(tableUnpaid, fx.Unpaid.Object), toUnpaid(fx.Unpaid))
	}
	t.appendEvents(fx.Events)
	if fx.Expiry != nil && !t.has(t.key(expiries.row, fx.Expiry.ID)) {
		t.putMessage(expiries, nil, fx.Expiry)
	}
}

// Renew implements [claim.Store]. It is one step for all homes: if one of them is
// unreachable nothing is renewed.
func (v *View) Renew(ctx context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	homes := make([]string, len(leases))
	for i, l := range leases {
		if err := checkKey(l.Key); err != nil {
			return nil, err
		}
		homes[i] = l.Home
	}
	if err := v.reach(ctx, homes...); err != nil {
		return nil, err
	}
	held := make([]bool, len(leases))
	err := v.do(ctx, func(t *tx) {
		var locks []int
		for _, l := range leases {
			locks = append(locks, t.rows.index(t.regions[l.Home], l.Key))
		}
		t.lock(t.rows, locks...)
		now := t.clock.now()
		for i, l := range leases {
			t := t.of(l.Home)
			rec, call := t.claimed(l.Key)
			next, err := claim.Renew(rec, holder, l.Fence, &t.policy, now)
			if held[i] = err == nil; held[i] { // the only error is that the holder is fenced off
				// The call stays due as it was: a worker that takes it meets the lease and
				// postpones it. Moving it would double the heartbeat's cost.
				t.put(t.scoped(tableClaim, l.Key), toClaim(next, call))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// claim reads one row, nil if there is none. The caller holds its lock.
func (t *tx) claim(key claim.Key) *claim.Record {
	rec, _ := t.claimed(key)
	return rec
}

// claimed is claim with the provider call, nil if there is none.
func (t *tx) claimed(key claim.Key) (rec *claim.Record, call *outbox.Message) {
	var m storev1.Claim
	if !t.get(t.scoped(tableClaim, key), &m) {
		return nil, nil
	}
	rec, call, err := fromClaim(t.region, key, &m)
	t.fail(err)
	return rec, call
}

// synced reads a row under its lock, for a reader that does not hold it until its end. Pebble
// shows a commit before its sync is through; the lock is what makes a reader wait for that.
func synced[T any](t *tx, lock *sync.RWMutex, read func() *T) *T {
	t.unshare()
	lock.RLock()
	defer lock.RUnlock()
	return read()
}

func (t *tx) syncedClaim(key claim.Key) *claim.Record {
	return synced(t, t.rows.of(t.code, key), func() *claim.Record { return t.claim(key) })
}

// named is the key of the claim with a minted id, empty if there is none.
func (t *tx) named(id string) (key claim.Key) {
	t.read(t.key(tableObject, id), func(value []byte) (err error) {
		key, err = readPair(value)
		return err
	})
	return key
}

// object finds a row by its minted id, nil if there is none.
func (t *tx) object(id string) *claim.Record {
	if rec := t.syncedClaim(t.named(id)); rec != nil && rec.Minted.ID == id {
		return rec
	}
	return nil // or it was replaced or swept between the two reads
}

// reversingKey is the key of rec's row in the index of what is in flight and reverses an object, nil
// if it has none.
func (t *tx) reversingKey(rec *claim.Record) []byte {
	if rec == nil || rec.State != claim.InFlight || rec.Reverses == "" {
		return nil
	}
	return t.key(tableReversing, rec.Reverses, rec.Minted.ID)
}

// Reversing implements [claim.Store].
func (v *View) Reversing(ctx context.Context, tenant, home, id string, limit int) ([]claim.Reversing, error) {
	all, err := page(ctx, v, home, math.MaxInt, func(t *tx, add func(*claim.Reversing) bool) {
		prefix := t.key(tableReversing, id, "")
		t.scan(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
			id := string(k[len(prefix):])
			key := t.named(id)
			if key.Tenant != tenant {
				return true
			}
			return add(synced(t, t.rows.of(t.code, key), func() *claim.Reversing {
				rec, call := t.claimed(key)
				if call == nil || rec.Minted.ID != id {
					return nil // it has ended meanwhile
				}
				return &claim.Reversing{ID: id, Created: rec.Minted.Created, Payload: call.Payload}
			}))
		})
	})
	slices.SortFunc(all, func(a, b claim.Reversing) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
	return all[:max(0, min(limit, len(all)))], err
}

// Get implements [claim.Store].
func (v *View) Get(ctx context.Context, key claim.Key, home string) (rec claim.Record, now time.Time, found bool, err error) {
	if err := checkKey(key); err != nil {
		return rec, now, false, err
	}
	err = v.on(ctx, home, func(t *tx) { rec, found = valueOf(t.syncedClaim(key)) })
	return rec, v.clock.now(), found, err
}

// Object implements [claim.Store].
func (v *View) Object(ctx context.Context, tenant, home, id string) (rec claim.Record, now time.Time, found bool, err error) {
	rec, found, err = v.ByObject(ctx, home, id)
	if rec.Key.Tenant != tenant {
		rec, found = claim.Record{}, false // do not reveal another tenant's object
	}
	return rec, v.clock.now(), found, err
}

// ByObject implements [claim.Store].
func (v *View) ByObject(ctx context.Context, home, id string) (rec claim.Record, found bool, err error) {
	err = v.on(ctx, home, func(t *tx) { rec, found = valueOf(t.object(id)) })
	return rec, found, err
}

// Replica reads return what a replica near the view would have: rows that have been
// final for at least the replica lag. They never travel, so they also answer while the
// home is cut off.

// Replica implements [claim.Store].
func (v *View) Replica(ctx context.Context, key claim.Key) (shown claim.Shown, err error) {
	if err := checkKey(key); err != nil {
		return claim.Shown{}, err
	}
	stamp, stamped := claim.ReadStamp(key.Value)
	err = v.do(ctx, func(t *tx) {
		for _, home := range t.order {
			if stamped && home.Code != stamp {
				continue // a stamped key has a claim nowhere else
			}
			if rec := t.of(home.Name).syncedClaim(key); t.replicated(rec) {
				shown.Record = rec
				return
			}
		}
		if !stamped {
			shown.Pin = t.replicatedPin(key)
		}
	})
	return shown, err
}

// replicated reports whether a replica shows rec as final and live by now.
func (db *DB) replicated(rec *claim.Record) bool {
	now := db.clock.now()
	return rec != nil && rec.State.Final() && rec.Age(&db.policy, now) == claim.Live &&
		!now.Before(rec.SettledAt.Add(db.replicaLag))
}

// unpaid reads one row, nil if there is none. A writer holds the lock of the claim and the row's
// own, which is among those of transactions: housekeeping does not have the key of the claim. The
// caller holds the row's own.
func (t *tx) unpaid(object string) *claim.Unpaid {
	return row(t, t.key(tableUnpaid, object), func(m *storev1.Unpaid) *claim.Unpaid { return fromUnpaid(t.region, object, m) })
}

func (t *tx) syncedUnpaid(object string) *claim.Unpaid {
	return synced(t, t.books.of(t.code, bookOf(object)), func() *claim.Unpaid { return t.unpaid(object) })
}

// Unpaid implements [claim.Store].
func (v *View) Unpaid(ctx context.Context, home, id string) (u claim.Unpaid, found bool, err error) {
	err = v.on(ctx, home, func(t *tx) { u, found = valueOf(t.syncedUnpaid(id)) })
	return u, found, err
}

// Settled lists up to limit claims of home that are not in flight, after a key and in
// the order of keys: by tenant, then by value, byte for byte. It leaves out responses.
func (v *View) Settled(ctx context.Context, home string, after claim.Key, limit int) ([]claim.Record, error) {
	return page(ctx, v, home, limit, func(t *tx, add func(*claim.Record) bool) {
		from := t.key(tableClaim)
		if after != (claim.Key{}) {
			from = behind(t.scoped(tableClaim, after))
		}
		each(t, from, prefixEnd(t.key(tableClaim)), func(k []byte, m *storev1.Claim) bool {
			if claim.State(m.State) == claim.InFlight {
				return true
			}
			key, err := readPair(k[keyHead:])
			t.fail(err)
			m.Response = nil
			rec, _, err := fromClaim(home, key, m)
			t.fail(err)
			return add(rec)
		})
	})
}

// unknownAmong is how many open provider calls Unknown looks at.
const unknownAmong = 20_000

// Unknown lists up to limit claims of a region in flight with an attempt of unknown
// outcome, oldest first: those of live tenants, or of test tenants. If both have more
// than 20,000 open calls, it looks at those that are due first.
// It leaves out parked ones. The records have no response.
func (v *View) Unknown(ctx context.Context, region string, live bool, limit int) (unknown []claim.Record, err error) {
	err = v.eachInFlight(ctx, region, unknownAmong, func(rec *claim.Record) {
		if rec.Unknowns > 0 && claim.Livemode(rec.Key.Tenant) == live {
			rec.Response, rec.Refusal = nil, nil
			unknown = append(unknown, *rec)
		}
	})
	slices.SortFunc(unknown, func(a, b claim.Record) int {
		return cmp.Or(a.FirstUse.Compare(b.FirstUse), cmp.Compare(a.Minted.ID, b.Minted.ID))
	})
	return unknown[:max(0, min(len(unknown), limit))], err
}

// InFlight counts the claims of a region without an outcome, except parked ones: each
// has its provider call from Begin to Settle. Beyond 100,000 it stops counting.
func (v *View) InFlight(ctx context.Context, region string) (n int, err error) {
	err = v.eachInFlight(ctx, region, depthLimit, func(*claim.Record) { n++ })
	return n, err
}

func (v *View) eachInFlight(ctx context.Context, region string, among int, see func(*claim.Record)) error {
	return v.on(ctx, region, func(t *tx) {
		t.eachDue(providerCalls, maxDue, func(d due) bool {
			if rec := t.syncedClaim(d.owner); rec != nil && rec.State == claim.InFlight && rec.Minted.ID == d.id {
				see(rec)
			}
			among--
			return among > 0
		})
	})
}

// putAudit adds an entry to the audit of a key.
func (t *tx) putAudit(key claim.Key, e *claim.AuditEntry) {
	t.put(t.auditKey(key, t.seq.Add(1)), toAudit(e))
}

// Note implements [claim.Store]. It does not wait for the disk. A note for another home
// travels with later traffic and is not charged a round trip of its own.
func (v *View) Note(ctx context.Context, key claim.Key, home string, e claim.AuditEntry) {
	err := checkKey(key)
	if err == nil {
		err = v.in(context.WithoutCancel(ctx), home, func(t *tx) { // what happened, happened
			if e.At.IsZero() {
				e.At = t.clock.now()
			}
			t.opts = pebble.NoSync
			t.putAudit(key, &e)
		})
	}
	if err != nil {
		v.complain.Do(func() { v.log.WarnContext(ctx, "store: an audit note is lost", "error", err, "event", e.Event) })
	}
}

// Timeline implements [claim.Store].
func (v *View) Timeline(ctx context.Context, key claim.Key, home string, limit int) (entries []claim.AuditEntry, err error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	err = v.on(ctx, home, func(t *tx) {
		t.hold(t.rows.of(t.code, key).RLocker())
		prefix := t.auditKey(key)
		each(t, prefix, prefixEnd(prefix), func(_ []byte, m *storev1.Audit) bool {
			entries = append(entries, fromAudit(m))
			return true
		})
	})
	return entries[max(0, len(entries)-max(0, limit)):], err
}
