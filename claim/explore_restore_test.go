package claim_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// A world with restores has one backup, and one restore from it. [claim.Guard] stands in front of
// the store and of the executor as it is. The audit is a model of one: it has what the lost store
// had, and is read one witness after the other.

// clone copies s. Rows are never changed in place.
func (s *pureStore) clone() *pureStore {
	n := newPureStore(s.policy)
	maps.Copy(n.rows, s.rows)
	maps.Copy(n.pins, s.pins)
	n.registrar, n.former = s.registrar, s.former
	maps.Copy(n.queued[outbox.ProviderCalls], s.queued[outbox.ProviderCalls])
	maps.Copy(n.queued[outbox.Expiries], s.queued[outbox.Expiries])
	maps.Copy(n.books, s.books)
	maps.Copy(n.unpaid, s.unpaid)
	maps.Copy(n.witnesses, s.witnesses)
	n.restore = s.restore
	return n
}

// claims are the store's steps as a node of region takes them: behind the guard, after a restore.
func (w *world) claims(region int) claim.Store {
	s := w.by(region)
	if g := w.guard(); g != nil {
		return g.Claims(s, pureQueue{s: s, q: outbox.ProviderCalls}, &s.policy)
	}
	return s
}

// guard is that of each node; nil: there is no restore.
func (w *world) guard() *claim.Guard {
	if !w.store.restore.Withholds() || w.without == "the guard of a restore" {
		return nil
	}
	g, err := claim.NewGuard(context.Background(), w.store)
	if err != nil {
		panic(err)
	}
	return g
}

// restoreEvents are the backup, its restore, and what people read in the audit then.
func (w *world) restoreEvents(event func(func(n *world) string)) {
	switch {
	case w.backup == nil && !w.restored:
		event(func(n *world) string {
			n.backup, n.backedUp = n.store.clone(), n.time
			return "a backup is made"
		})
	case w.backup != nil && w.mayFail():
		event((*world).putBack)
	}
	for i := range w.unread {
		event(func(n *world) string {
			n.store.witnesses[n.unread[i].Key] = n.unread[i]
			n.unread = append(append([]claim.Witness(nil), n.unread[:i]...), n.unread[i+1:]...)
			return "the audit shows what became of " + w.unread[i].Object
		})
	}
	done := len(w.unread) == 0 || w.without == "keys withheld until the witnesses are complete"
	if w.restored && done && w.store.restore.Phase == claim.RestoreHolding {
		event(func(n *world) string {
			n.store.restore.Phase = claim.RestoreWitnessed
			n.store.restore.Version++
			return "the witnesses are complete"
		})
	}
}

// putBack loses the store, ends all nodes, and puts the backup in its place.
func (w *world) putBack() string {
	crashed := w.crashed
	for _, node := range w.nodes() {
		w.crash(node)
	}
	w.crashed = crashed + 1 // all of them are one fault
	was := w.store
	w.late, w.page, w.store, w.backup, w.restored = nil, nil, w.backup.clone(), nil, true
	for i := range w.tasks {
		if t := &w.tasks[i]; t.phase == routed || t.phase == pinning {
			t.phase, t.old, t.anew = idle, nil, nil // its caller asks again
		}
	}
	now := w.by(asia).now
	w.store.restore = claim.NewRestore(claim.Restore{}, dawn.Add(time.Duration(w.backedUp)*time.Second), now, now, nil, "ops", "drill")
	w.store.restore.Version, w.store.restore.Tag = 1, 0
	for at, rec := range was.rows {
		if !same(rec, w.store.rows[at]) {
			w.unread = append(w.unread, w.witness(rec, w.store.rows[at]))
		}
	}
	slices.SortFunc(w.unread, func(a, b claim.Witness) int { return a.Key.Compare(b.Key) })
	return fmt.Sprintf("the store is lost, and put back as it was at %d s", w.backedUp)
}

// same reports whether the audit has nothing of a row after the backup.
func same(a, b *claim.Record) bool {
	return b != nil && a.Fence == b.Fence && a.State == b.State && a.Unknowns == b.Unknowns && a.Minted.ID == b.Minted.ID
}

// witness is what the audit shows of the lost row rec. kept is what the backup has.
func (w *world) witness(rec, kept *claim.Record) claim.Witness {
	provider, _ := rec.With(w.banks)
	x := claim.Witness{
		Key: rec.Key, Home: rec.Home, Object: rec.Minted.ID, FirstUse: rec.FirstUse, Fingerprint: rec.Fingerprint, Fence: rec.Fence,
		Generation: rec.Generation, Provider: provider, Operation: rec.Operation, Done: rec.State == claim.Completed, Answered: rec.State.Final(),
		ProviderRef: rec.ProviderRef,
	}
	if kept != nil && kept.Minted.ID == rec.Minted.ID {
		x.FirstUse = time.Time{} // the audit before the backup has it
	}
	return x
}

// putRestore writes what w's future depends on because of a restore.
func (w *world) putRestore(b *bytes.Buffer) {
	fmt.Fprintln(b, w.restored, w.backedUp, w.store.restore.Phase)
	if w.backup != nil {
		n := *w
		n.store, n.backup, n.tasks, n.calls, n.orders, n.late, n.moves, n.said = w.backup, nil, nil, nil, nil, nil, nil, nil
		n.encode(b)
	}
	sorted(b, w.unread, func(x claim.Witness) { fmt.Fprintln(b, x.Key, x.Object) })
	sorted(b, slices.Collect(maps.Values(w.store.witnesses)), func(x claim.Witness) {
		fmt.Fprintln(b, x.Key, x.Object, x.Generation, x.Done, x.Answered, x.Fence, x.ProviderRef)
	})
}
