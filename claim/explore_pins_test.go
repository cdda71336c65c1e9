package claim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
)

// What happens to pins beside the request that reads them: the registrar moves, and sweeps delete
// them. Each event is one statement of the SQL store, which takes more of them than the embedded
// one.

// repin has request i write the pin anew that it has read.
func (w *world) repin(i int) string {
	t, s := &w.tasks[i], w.by(w.asks[i].entry)
	old, pin := t.old, t.anew
	t.old, t.anew = nil, nil
	if is := s.pins[pinPlace{old.at, old.Key}]; w.without == "the pin's time compared when it is written" && is != nil {
		old = &standingPin{*is, old.at}
	}
	if !s.rewrite(old, pin) {
		t.phase = idle
		return w.who(i) + " cannot write its pin anew, as it has changed"
	}
	t.phase, t.home, t.pinned = routed, slices.Index(regions[:], pin.Home), pin.CreatedAt
	return fmt.Sprintf("%s writes its pin anew at %s: it names %s", w.who(i), s.registrar, pin.Home)
}

// beginHere has request i pin its key and begin, in one step.
func (w *world) beginHere(i int) string {
	t, s := &w.tasks[i], w.by(w.asks[i].entry)
	here := regions[w.asks[i].entry]
	if s.registrar != here || s.former != "" && w.without != "former registrar, where one step pins and begins" {
		return ""
	}
	former := s.former
	s.former = ""
	pin := s.fix(w.key(i), here)
	if s.former = former; pin == nil {
		return "" // as if it had asked for the pin
	}
	if rec, _, _, _ := s.Get(context.Background(), w.key(i), here); rec.State != 0 {
		return ""
	}
	t.phase, t.home, t.pinned, t.body = routed, w.asks[i].entry, pin.CreatedAt, []byte(w.asks[i].body)
	if t.began == 0 {
		t.began = w.time + 1
	}
	return w.begin(i, t.home, false) + ", and pins its key by the same step"
}

// registrarEvents are the moves of the tenant's registrar, and the end of the former one.
func (w *world) registrarEvents(event func(func(n *world) string)) {
	s := w.store
	for _, to := range registrars {
		free := s.former == "" || s.former == to || !s.keeps(s.former) || w.without == "a third registrar waits for the pins of the first"
		if to != s.registrar && free && w.moved < w.moving {
			event(func(n *world) string {
				n.moved++
				n.store.registrar, n.store.former = to, n.store.registrar
				return fmt.Sprintf("the registrar moves from %s to %s", n.store.former, to)
			})
		}
	}
	if s.former != "" && (!s.keeps(s.former) || w.without == "the former registrar counts until its last pin") {
		event(func(n *world) string {
			defer func() { n.store.former = "" }()
			return "the former registrar " + n.store.former + " is forgotten"
		})
	}
}

// readPage has a sweep find the pins of registrar that it is to delete.
func (w *world) readPage(registrar string) string {
	s, p := w.by(asia), &w.store.policy
	for _, key := range w.keys() {
		pin := s.pins[pinPlace{registrar, key}]
		if pin == nil || s.now.Before(pin.CreatedAt.Add(p.PinLife())) && w.without != "age of a swept pin" {
			continue
		}
		rec := s.rows[claimtest.Place{Home: pin.Home, Key: key}]
		if rec == nil || rec.Age(p, s.now) == claim.Gone || w.without == "claim asked before a pin is swept" {
			w.page = append(w.page, standingPin{*pin, registrar})
		}
	}
	if len(w.page) == 0 {
		return ""
	}
	return "a sweep of the pins at " + registrar + " reads what it is to delete"
}

// sweepPage deletes what a sweep has read, unless it was written anew.
func (w *world) sweepPage() string {
	var gone []string
	for _, read := range w.page {
		at := pinPlace{read.at, read.Key}
		if is := w.store.pins[at]; is != nil && (is.CreatedAt.Equal(read.CreatedAt) || w.without == "the pin's time compared when it is swept") {
			delete(w.store.pins, at)
			gone = append(gone, read.Key.Value)
		}
	}
	if w.page = nil; gone == nil {
		return "the sweep deletes no pin, as they have changed"
	}
	return "the sweep deletes the pin of " + strings.Join(gone, ", ")
}
