package claim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
)

// scene is what a small world starts with: who may act, what may go wrong, and how often.
type scene struct {
	// asks are the requests, each of which may arrive at any moment. Two with one body are
	// twins, or a retry.
	asks []ask
	// workers are the regions with an outbox worker, one each. deputies lets an entry and a
	// worker act on the rows of the other region while its nodes live.
	workers  []int
	deputies bool
	// dedupes and lookup are what the provider can do. decides lists the decisions that it may
	// make about a call: paid, soft, hard, pending.
	dedupes, lookup bool
	decides         []string
	// transit is how long a call may be on its way; 0: for ever.
	transit int
	// faults bounds the crashes of nodes and the lost or delayed messages, together.
	faults int
	// moments are the times to which the clock goes on, one after the other, in seconds.
	moments []int
	// fast is how far asia's clock is ahead of europe's.
	fast   int
	renews bool // holders renew their leases
	closes bool // released claims may be closed, as after their request's expires_at
	sweeps bool // what is past its tombstone is deleted
	// moving bounds how often the tenant's registrar moves, to any of registrars.
	moving int
	// banks are the providers of a world with the real executor, see explore_money_test.go; none:
	// the executor is a model. notices: it hears of what they have. later: they report later what
	// became of a capture, and show nothing.
	banks          []string
	notices, later bool
	rails          *rails
	// restores: a backup is made once, and the store may be lost after it.
	restores bool
	// without names the guard that a revert run takes out.
	without string
}

// ask is one request.
type ask struct {
	body    string
	entry   int // the region where it arrives
	node    int // which of a region's two nodes executes it, 0 or 1
	stamped bool
	key     string
	op      payment.Operation // where there are banks; "": a charge
	amount  int64             // of a capture
}

const (
	europe = iota
	asia
)

var regions = [...]string{europe: "europe", asia: "asia"}

// registrars may keep the pins. Nothing else is in america.
var registrars = []string{"europe", "asia", "america"}

// dawn is the time 0 of all worlds.
var dawn = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// smallPolicy has the proportions of the default one, in times that few steps of the clock reach.
func smallPolicy() claim.Policy {
	p := claim.DefaultPolicy()
	p.Lease, p.LeaseMargin, p.ClockOffset, p.LeaseCeiling = 3*time.Second, time.Second, time.Second, 6*time.Second
	p.BackoffMin, p.BackoffMax, p.DeclinePause = time.Second, time.Second, time.Second
	p.MaxUnknowns, p.MaxGenerations = 2, 2
	p.ReplayFor, p.TombstoneFor, p.PinGrace = 40*time.Second, 40*time.Second, 10*time.Second
	return p
}

// world is one state: the store, what each actor is at, what is on its way, and what the
// provider and the callers have seen. It is never changed once the search has it.
type world struct {
	*scene
	store  *pureStore
	time   int
	tasks  []task // the requests in their order, then the workers
	calls  []call // on their way to the provider
	orders []order
	late   []letter
	moves  []movement // what the provider has, in the order of arrival
	said   []reading  // what callers have read
	gaveUp []string   // the objects that were marked or closed, or whose refund was asked for, by who gave their key up
	// crashed and lost count crashes and lost or delayed messages.
	crashed, lost int
	moved         int           // how often the registrar has
	page          []standingPin // what a sweep has read, and is about to delete
	// backup is the store as it was at backedUp; nil: there is none, or it was put back. unread is
	// what the audit has of the writes that this lost.
	backup   *pureStore
	backedUp int
	restored bool
	unread   []claim.Witness
	line     string // the event that led here
}

type phase byte

const (
	idle     phase = iota
	pinning        // a request has read its key's pin, and is about to write it anew
	routed         // a request knows its home
	holding        // has the claim, and is about to call or to ask
	calling        // waits for the provider
	settling       // has a verdict for the store
	moving         // is about to follow its claim to another provider
	over           // a request has its answer, or its node died
)

// task is a request, or the row that a worker is at.
type task struct {
	phase  phase
	home   int
	region int       // of the node that acts
	node   string    // the holder's name, new after each crash
	pinned time.Time // of the pin
	// old is the pin that a request writes anew, and anew what it writes.
	old   *standingPin
	anew  *claim.Pin
	began int
	body  []byte
	// held is the row as the store returned it, recovery that an earlier attempt may have paid,
	// and cleared that the provider said often enough that none did.
	held              claim.Record
	recovery, cleared bool
	trust, until      int // when trust ends, and the lease by the true clock
	verdict           claim.Verdict
	provider          string        // to call, where there are banks
	moved             uint64        // the fence of the row that was moved to another provider
	recorded          *claim.Record // the row with the verdict in it, if the reply was lost
	fenced            bool          // the store refused a verdict that the row still has
	early             bool          // began a generation although the refusal of the former one was its answer
}

// call is a request on its way to the provider.
type call struct {
	task             int // that waits for it; -1: none does
	sent             int
	key, object, idk string // the provider key, the object and the idempotency key
	body             string
	generation       uint32
	// bank is where it goes. manual: it is to hold the money. order is what it makes of the
	// bank's movement of, if it is no charge: paid, so much as amount, canceled or refunded.
	bank, order, of string
	manual          bool
	amount          int64
}

type movement struct {
	call
	state string
	at    int // when money moved
	// Where there are banks: ref is the bank's id, by the key of the order that it obeyed, captured how
	// much moved, and refunds the keys under which it was given back. betrayed: it was declined
	// before. noticed: its notice is closed.
	ref, by, refunds  string
	captured          int64
	betrayed, noticed bool
}

// letter is a verdict that is still on its way to the store.
type letter struct {
	held    claim.Record
	verdict claim.Verdict
	region  int
}

// reading is an answer that a caller got. final is when it was recorded as the final one; zero
// for the answer of now.
type reading struct {
	key, body, answer string // body is that of the caller
	final             time.Time
}

func newWorld(sc *scene) *world {
	w := &world{scene: sc, store: newPureStore(smallPolicy()), tasks: make([]task, len(sc.asks)+len(sc.workers))}
	if len(sc.banks) > 0 {
		sc.rails = newRails(sc)
		w.tasks = append(w.tasks, task{}) // for what the compensator begins
	}
	w.store.registrar = registrars[0]
	for i := range w.tasks {
		w.tasks[i].region = w.regionOf(i)
	}
	return w
}

// name is that of the node on which task i runs in region.
func (w *world) name(i, region int) string {
	n := 0
	if i < len(w.asks) {
		n = w.asks[i].node
	}
	return fmt.Sprintf("%s/%d", regions[region], n+1)
}

func (w *world) regionOf(i int) int {
	if i < len(w.asks) {
		return w.asks[i].entry
	}
	if i == len(w.asks)+len(w.workers) {
		return europe
	}
	return w.workers[i-len(w.asks)]
}

func (w *world) who(i int) string {
	if i < len(w.asks) {
		what := w.asks[i].body
		if len(w.banks) > 0 {
			what = string(w.operation(i))
		}
		return fmt.Sprintf("request %d (%s for %s)", i+1, w.asks[i].key, what)
	}
	if i == len(w.asks)+len(w.workers) {
		return "the compensator"
	}
	return "the worker of " + regions[w.regionOf(i)]
}

// mayFail reports whether another fault is within the bound.
func (w *world) mayFail() bool { return w.crashed+w.lost < w.faults }

func (w *world) clone() *world {
	n := *w
	n.store, n.tasks, n.calls, n.late = w.store.clone(), slices.Clone(w.tasks), slices.Clone(w.calls), slices.Clone(w.late)
	n.orders = slices.Clone(w.orders)
	n.moves, n.said, n.gaveUp = slices.Clone(w.moves), slices.Clone(w.said), slices.Clone(w.gaveUp)
	return &n
}

// by returns the store as a node of region uses it: with that region's clock.
func (w *world) by(region int) *pureStore {
	w.store.now = dawn.Add(time.Duration(w.time+w.fast*region) * time.Second)
	w.store.jitter = 0
	return w.store
}

func (w *world) key(i int) claim.Key { return claim.Key{Tenant: "t", Value: w.asks[i].key} }

func (w *world) place(r *claim.Record) claimtest.Place {
	return claimtest.Place{Home: r.Home, Key: r.Key}
}

func (w *world) row(r *claim.Record) *claim.Record { return w.store.rows[w.place(r)] }

// next returns every state that one event leads to.
func (w *world) next() (all []*world) {
	event := func(do func(n *world) string) {
		n := w.clone()
		if n.line = do(n); n.line != "" {
			all = append(all, n)
		}
	}
	for i := range w.tasks {
		w.act(i, event)
	}
	if len(w.banks) > 0 {
		w.bankEvents(event)
		w.refundEvents(event)
	} else {
		for c := range w.calls {
			w.arrive(c, event)
		}
	}
	for m := range w.moves {
		if w.moves[m].state == "pending" {
			event(func(n *world) string {
				n.moves[m].state, n.moves[m].at = "paid", n.time
				return "the payer confirms, and the provider moves the money"
			})
		}
	}
	for l := range w.late {
		event(func(n *world) string {
			late := n.late[l]
			n.late = slices.Delete(n.late, l, l+1)
			_, err := n.settle(late.region, late.held, late.verdict)
			if err != nil {
				return fmt.Sprintf("a delayed verdict (%s) reaches the store: %v", late.verdict.Outcome, err)
			}
			for i := range n.tasks {
				if t := &n.tasks[i]; t.phase == settling && t.verdict.ID == late.verdict.ID {
					t.recorded = n.row(&late.held)
				}
			}
			return fmt.Sprintf("a delayed verdict (%s) reaches the store and is recorded", late.verdict.Outcome)
		})
	}
	if w.mayFail() {
		for _, node := range w.nodes() {
			event(func(n *world) string { return n.crash(node) })
		}
	}
	later := slices.IndexFunc(w.moments, func(m int) bool { return m > w.time })
	// Before anything is in the store, time changes nothing.
	if later >= 0 && len(w.store.rows)+len(w.store.pins) > 0 {
		event(func(n *world) string {
			n.time = w.moments[later]
			return fmt.Sprintf("%d s pass", n.time-w.time)
		})
	}
	if w.sweeps {
		event((*world).sweep)
		for _, r := range registrars {
			if len(w.page) == 0 && w.store.keeps(r) {
				event(func(n *world) string { return n.readPage(r) })
			}
		}
		if len(w.page) > 0 {
			event((*world).sweepPage)
		}
	}
	if w.moving > 0 {
		w.registrarEvents(event)
	}
	if w.restores {
		w.restoreEvents(event)
	}
	return all
}

// act are the events of one task.
func (w *world) act(i int, event func(func(n *world) string)) {
	t := &w.tasks[i]
	switch t.phase {
	case idle:
		if i == len(w.asks)+len(w.workers) || i < len(w.asks) && w.operation(i).Orders() && w.heldCharge() == nil {
			return
		}
		if i < len(w.asks) {
			event(func(n *world) string { return n.route(i) })
			if w.moving > 0 && !w.asks[i].stamped {
				event(func(n *world) string { return n.beginHere(i) })
			}
			return
		}
		for ref, m := range w.store.queued[outbox.ProviderCalls] {
			if home := slices.Index(regions[:], ref.Home); home == t.region || w.deputies {
				event(func(n *world) string { return n.recover(i, home, m, false) })
				if w.mayFail() {
					event(func(n *world) string { return n.recover(i, home, m, true) })
				}
			}
		}
		for _, rec := range w.store.rows {
			if w.closes && rec.State == claim.FailedRetry && rec.Home == regions[t.region] {
				event(func(n *world) string { return n.close(i, rec) })
			}
		}
	case pinning:
		event(func(n *world) string { return n.repin(i) })
	case routed:
		event(func(n *world) string { return n.begin(i, t.home, false) })
		if w.mayFail() {
			event(func(n *world) string { return n.begin(i, t.home, true) })
		}
		if entry := w.asks[i].entry; entry != t.home && w.deputies {
			event(func(n *world) string { return n.begin(i, entry, false) })
		}
	case holding:
		if len(w.banks) > 0 {
			w.attemptBy(i, t.region, event, func(n *world, r *run) string { return n.execute(i, r) })
			break
		}
		event(func(n *world) string { return n.attempt(i) })
	case moving:
		event(func(n *world) string { return n.follow(i) })
	case calling:
		if w.mayFail() {
			event(func(n *world) string {
				n.lost++
				n.detach(i)
				n.learn(i, n.unknown(i, false))
				return n.who(i) + " gets no answer from the provider in time"
			})
		}
	case settling:
		event(func(n *world) string { return n.record(i) })
		if w.mayFail() && t.recorded == nil {
			event(func(n *world) string {
				n.lost++
				if _, err := n.settle(n.tasks[i].region, n.tasks[i].held, n.tasks[i].verdict); err != nil {
					return ""
				}
				n.tasks[i].recorded = n.row(&n.tasks[i].held)
				return fmt.Sprintf("the store records %s's verdict (%s); its reply is lost", n.who(i), n.tasks[i].verdict.Outcome)
			})
			event(func(n *world) string {
				n.lost++
				n.delay(i)
				return fmt.Sprintf("%s's verdict (%s) is delayed on its way to the store, and it will send it again", n.who(i), n.tasks[i].verdict.Outcome)
			})
		}
	case over:
	}
	if w.renews && (t.phase == calling || t.phase == settling) {
		event(func(n *world) string { return n.renew(i) })
	}
}

// route has request i find its home: the stamp names it, or the pin.
func (w *world) route(i int) string {
	t, a := &w.tasks[i], w.asks[i]
	t.phase, t.home, t.body = routed, europe, []byte(a.body)
	if t.began == 0 {
		t.began = w.time + 1 // 0: not yet
	}
	if len(w.banks) > 0 && w.operation(i).Orders() {
		body := "{}"
		if a.amount > 0 {
			body = fmt.Sprintf(`{"amount":%d}`, a.amount)
		}
		t.body = payment.OrderOf([]byte(body), w.heldCharge().Minted.ID)
	}
	if a.stamped {
		return fmt.Sprintf("%s arrives at %s; its stamp names europe", w.who(i), regions[a.entry])
	}
	s := w.by(a.entry)
	if w.restored {
		pin, err := w.claims(a.entry).Pin(context.Background(), w.key(i), regions[a.entry])
		if err != nil {
			return "" // it asks again, at any later time
		}
		t.pinned, t.home = pin.CreatedAt, slices.Index(regions[:], pin.Home)
		return fmt.Sprintf("%s arrives at %s; its pin names %s", w.who(i), regions[a.entry], pin.Home)
	}
	if pin := s.fix(w.key(i), regions[a.entry]); pin != nil {
		t.pinned, t.home = pin.CreatedAt, a.entry
		return fmt.Sprintf("%s arrives at %s, and is pinned there by %s", w.who(i), regions[a.entry], s.registrar)
	}
	old := s.standing(w.key(i))
	pin, change := w.decidePin(old, regions[a.entry])
	if change != claim.PinUnchanged {
		t.phase, t.old, t.anew = pinning, old, &pin
		return fmt.Sprintf("%s arrives at %s, and reads its pin at %s, which names %s and is old", w.who(i), regions[a.entry], old.at, old.Home)
	}
	t.home, t.pinned = slices.Index(regions[:], pin.Home), pin.CreatedAt
	return fmt.Sprintf("%s arrives at %s; its pin names %s", w.who(i), regions[a.entry], pin.Home)
}

// decidePin is what a request that arrives at entry makes of a pin.
func (w *world) decidePin(old *standingPin, entry string) (claim.Pin, claim.PinChange) {
	if w.without == "claim asked before a pin is taken" {
		at := claimtest.Place{Home: old.Home, Key: old.Key}
		if rec := w.store.rows[at]; rec != nil {
			delete(w.store.rows, at)
			defer func() { w.store.rows[at] = rec }()
		}
	}
	return old.next(w.store, entry)
}

// begin sends request i to the store through a node of region. lost: the store's answer is.
func (w *world) begin(i, region int, lost bool) string {
	t, ask := &w.tasks[i], w.asks[i]
	t.region, t.node = region, w.incarnation(w.name(i, region))
	a := claimtest.NewArrival(w.key(i), regions[t.home], string(t.body), t.node, fmt.Sprintf("ch_%d", i+1))
	if len(w.banks) > 0 {
		op := w.operation(i)
		a.Operation, a.Providers = string(op), w.banks
		a.Mint.ID = objectID(op, i, a.Home)
		a.Mint.Receipt = receiptOf(a.Mint.ID)
		if t.provider = ""; !payment.Unbound()[a.Operation] {
			t.provider = w.banks[0]
		}
		a.Provider = t.provider
	}
	a.Region, a.Stamped, a.PinnedAt = regions[region], ask.stamped, t.pinned
	a.UnderWay = time.Duration(w.time+1-t.began) * time.Second
	s := w.by(region)
	old := s.rows[claimtest.Place{Home: a.Home, Key: a.Key}]
	switch w.without {
	case "pin age":
		a.PinnedAt = s.now
	case "time under way":
		a.UnderWay = 0
	case "replay window and tombstone":
		if old != nil && old.State.Final() {
			delete(s.rows, claimtest.Place{Home: a.Home, Key: a.Key})
		}
	case "fingerprint":
		if old != nil {
			a.Also = old.Fingerprint
		}
	case "a key that was given up answers every request":
		if old != nil && old.Operation == claim.CancelKey && a.Operation != claim.CancelKey {
			delete(s.rows, claimtest.Place{Home: a.Home, Key: a.Key})
		}
	}
	got, err := unguarded(w, func() (claim.Begun, error) { return w.claims(region).Begin(context.Background(), a) })
	if withheld := (*claim.WithheldError)(nil); errors.As(err, &withheld) {
		return "" // it asks again, at any later time
	} else if err != nil {
		panic(err)
	}
	line := fmt.Sprintf("%s at node %s asks %s's row: %s", w.who(i), t.node, regions[t.home], got.Decision)
	if w.without == "call recorded with its claim" && got.Decision == claim.Won {
		clear(s.queued[outbox.ProviderCalls])
	}
	if lost {
		if w.lost++; got.Decision != claim.Won && got.Decision != claim.WonUnknown {
			return "" // nothing was written, so it may as well ask later
		}
		if w.without == "claim durable before the call" {
			delete(s.rows, claimtest.Place{Home: a.Home, Key: a.Key})
			w.hold(i, got.Record, false)
			return line + "; but the write is lost, and it goes on"
		}
		w.end(i)
		return line + "; the answer is lost"
	}
	switch got.Decision {
	case claim.Won, claim.WonUnknown:
		// The refusal that the request waited for was its answer, unless it began later.
		t.early = old != nil && old.Refusal != nil && got.Record.Generation > old.Generation &&
			dawn.Add(time.Duration(t.began-1+w.fast)*time.Second).Before(old.Refusal.At.Add(w.store.policy.DeclinePause))
		w.hold(i, got.Record, got.Decision == claim.WonUnknown)
	case claim.Replay:
		if w.without == "answer read from the row" {
			got.Record.Response = &claim.Response{Status: 201, Body: fmt.Appendf(nil, "%s: ch_%d paid", ask.body, i+1)}
		}
		w.read(i, got.Record.Response, got.Record.SettledAt)
	case claim.Shared:
		w.read(i, &got.Record.Refusal.Response, time.Time{})
	case claim.Waiting:
		w.read(i, &got.Record.Interim.Response, time.Time{})
	case claim.Mismatch, claim.TombStone:
		w.end(i)
	case claim.Busy: // it asks again, at any later time
	case claim.Used:
		line += w.cancel(i, got.Record)
	case claim.NeedPin:
		t.phase = idle // the entry reads the pin again
	}
	return line
}

// unguarded runs a step without the guard of the policy that a revert run takes out.
func unguarded[T any](w *world, step func() (T, error)) (T, error) {
	p := w.store.policy
	defer func() { w.store.policy = p }()
	switch w.without {
	case "lease":
		w.store.policy.ClockOffset = -time.Hour
	case "lease's clock offset":
		w.store.policy.ClockOffset = 0
	}
	return step()
}

// recover has worker i take over the claim of the call m. lost: the store's answer is.
func (w *world) recover(i, home int, m outbox.Message, lost bool) string {
	t, s := &w.tasks[i], w.by(w.tasks[i].region)
	key := claim.Key{Tenant: m.Tenant, Value: m.Key}
	rec := s.rows[claimtest.Place{Home: m.Region, Key: key}]
	if m.Due.After(s.now) && !(rec != nil && rec.Waits()) {
		return "" // neither due, nor is there news of it
	}
	t.node = w.incarnation(w.name(i, t.region))
	got, err := unguarded(w, func() (claim.Record, error) {
		return w.claims(t.region).TakeOver(context.Background(), key, m.Region, m.ID, t.node, regions[t.region], claim.News{})
	})
	if err != nil {
		return "" // held, or settled: the row is due again later
	}
	line := fmt.Sprintf("%s takes %s over, fence %d", w.who(i), m.ID, got.Fence)
	if lost {
		w.lost++
		return line + "; the answer is lost"
	}
	t.home, t.body = home, m.Payload
	w.hold(i, got, true)
	return line
}

// close has worker i read a released claim that it is to close.
func (w *world) close(i int, rec *claim.Record) string {
	t := &w.tasks[i]
	t.node = w.incarnation(w.name(i, t.region))
	t.held, t.home = *rec, t.region
	w.learn(i, &claim.Refused{Response: w.response(402, i, "", "expired"), Reason: "expired"})
	return fmt.Sprintf("%s reads %s, to close it", w.who(i), rec.Minted.ID)
}

func (w *world) hold(i int, rec claim.Record, recovery bool) {
	t := &w.tasks[i]
	p := &w.store.policy
	t.phase, t.held, t.recovery, t.cleared, t.recorded = holding, rec, recovery, false, nil
	t.until = w.time + int(p.Lease/time.Second)
	t.trust = t.until - int(p.LeaseMargin/time.Second)
}

func (w *world) trusts(t *task) bool { return w.time < t.trust || w.without == "trust in the lease" }

// attempt is what the executor does: it calls, repeats the call or asks, as package payment
// does. The provider answers a look-up at once, from what it has.
func (w *world) attempt(i int) string {
	t := &w.tasks[i]
	switch {
	case !w.trusts(t):
		w.learn(i, &claim.Unsent{Reason: "lease_ran_out", RetryIn: time.Second})
		return w.who(i) + " trusts its lease no longer, and sends nothing"
	case !t.recovery || t.cleared || w.dedupes && t.held.NotFounds == 0:
		c := call{task: i, key: t.held.ProviderKey, object: t.held.Minted.ID, idk: t.held.Key.Value, body: string(t.body), generation: t.held.Generation}
		if w.without == "provider key" {
			c.key += strconv.FormatUint(t.held.Fence, 10)
		}
		if w.transit > 0 { // else it does not matter
			c.sent = w.time
		}
		t.phase = calling
		w.calls = append(w.calls, c)
		return fmt.Sprintf("%s calls the provider for %s, generation %d", w.who(i), c.object, c.generation)
	case !w.lookup:
		w.learn(i, w.unknown(i, false))
		return w.who(i) + " cannot ask the provider"
	}
	for m := range w.moves {
		if w.moves[m].key == t.held.ProviderKey {
			w.learn(i, w.outcome(i, &w.moves[m]))
			return fmt.Sprintf("%s asks the provider, which has %s", w.who(i), w.moves[m].state)
		}
	}
	if t.held.NotFounds < 2 && w.without != "settle window" {
		w.learn(i, w.unknown(i, true))
		return w.who(i) + " asks the provider, which finds nothing"
	}
	t.cleared = true
	return w.who(i) + " asks the provider, which finds nothing: the call may be made again"
}

// arrive are the events of a call that reaches the provider.
func (w *world) arrive(c int, event func(func(n *world) string)) {
	if w.transit > 0 && w.without != "bound of a call's time" && w.time > w.calls[c].sent+w.transit {
		return // it was lost
	}
	known := slices.IndexFunc(w.moves, func(m movement) bool { return w.dedupes && m.key == w.calls[c].key })
	decides := w.decides
	if known >= 0 {
		decides = decides[:1] // whatever is there stands
	}
	for _, decided := range decides {
		for _, heard := range []bool{true, false} {
			if waits := w.calls[c].task >= 0; !heard && !(waits && w.mayFail()) {
				continue
			}
			event(func(n *world) string {
				it := n.calls[c]
				n.calls = slices.Delete(n.calls, c, c+1)
				m := known
				var line string
				if m < 0 {
					m = len(n.moves)
					n.moves = append(n.moves, movement{call: it, state: decided, at: n.time})
					n.moves[m].task, n.moves[m].sent = 0, 0
					line = fmt.Sprintf("the provider receives the call for %s: %s", it.object, decided)
				} else {
					line = fmt.Sprintf("the provider receives the call for %s again, and repeats: %s", it.object, n.moves[m].state)
				}
				switch {
				case it.task < 0:
				case heard:
					n.learn(it.task, n.outcome(it.task, &n.moves[m]))
				default:
					n.lost++
					n.learn(it.task, n.unknown(it.task, false))
					line += "; its reply is lost"
				}
				return line
			})
		}
	}
}

// response is an answer that names the body and the object that it is about. Nothing in it
// depends on who makes it.
func (w *world) response(status, i int, body, text string) claim.Response {
	t := &w.tasks[i]
	if body == "" {
		for _, a := range w.asks { // a closing reads the row alone
			if at := claimtest.NewArrival(t.held.Key, "", a.body, "", ""); at.Print == t.held.Fingerprint {
				body = a.body
			}
		}
	}
	return claim.Response{Status: status, Body: []byte(body + ": " + t.held.Minted.ID + " " + text)}
}

func (w *world) outcome(i int, m *movement) claim.Outcome {
	t := &w.tasks[i]
	switch m.state {
	case "paid":
		return &claim.Done{Response: w.response(201, i, m.body, "paid"), ProviderRef: m.key, Posting: claimtest.Posting(t.held, t.held.Minted.ID)}
	case "soft":
		return &claim.Released{Response: w.response(402, i, m.body, "declined for now"), Reason: "soft", ProviderRef: m.key}
	case "hard":
		return &claim.Refused{Response: w.response(402, i, m.body, "declined"), Reason: "hard", ProviderRef: m.key}
	default:
		return &claim.Pending{Response: w.response(202, i, m.body, "waits"), State: "payer", ProviderRef: m.key, AskIn: time.Second}
	}
}

func (w *world) unknown(i int, notFound bool) claim.Outcome {
	u := &claim.Unknown{Reason: "timeout", NotFound: notFound, RetryIn: time.Second}
	if notFound && w.transit > 0 {
		u.RetryIn = time.Duration(w.transit) * time.Second // the settle window
	}
	if w.dedupes { // the worker parks a charge that it cannot ask about, and gives up any other
		u.GiveUp = &claim.GivenUp{Response: w.response(503, i, string(w.tasks[i].body), "unknown")}
	}
	return u
}

func (w *world) learn(i int, o claim.Outcome) {
	t := &w.tasks[i]
	t.phase = settling
	t.verdict = claim.Verdict{Outcome: o, ID: verdictID(i, t.node, &t.held)}
}

// verdictID is of this holder and this row.
func verdictID(i int, node string, held *claim.Record) uuid.UUID {
	return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%d %s %s %d %d %d", i, node, held.Minted.ID, held.Fence, held.Unknowns, held.State))
}

// settle is the store's step.
func (w *world) settle(region int, held claim.Record, v claim.Verdict) (claim.Record, error) {
	s := w.by(region)
	if rec := w.row(&held); rec != nil {
		switch w.without {
		case "fence":
			held.Fence, held.Unknowns = rec.Fence, rec.Unknowns
		case "object's id":
			held.Minted.ID = rec.Minted.ID
		}
	}
	if w.without == "verdict's id" {
		v.ID = uuid.Nil
	}
	got, err := w.claims(region).Settle(context.Background(), held, v)
	withheld := (*claim.WithheldError)(nil)
	if err != nil && !errors.Is(err, claim.ErrFenced) && !errors.Is(err, ledger.ErrConflict) && !errors.As(err, &withheld) {
		panic(err)
	}
	if w.without == "booking in the verdict's step" {
		clear(s.books)
	}
	if w.without == "refund recorded with the step that refuses" {
		clear(s.queued[outbox.Expiries])
	}
	return got, err
}

// record has task i send its verdict, and answers its caller.
func (w *world) record(i int) string {
	t := &w.tasks[i]
	got, err := w.settle(t.region, t.held, t.verdict)
	line := fmt.Sprintf("%s settles %s with %s", w.who(i), t.held.Minted.ID, t.verdict.Outcome)
	if errors.Is(err, claim.ErrFenced) && len(w.banks) > 0 && w.sees(i) {
		return line + ": the key was given up meanwhile, and so it is " + t.verdict.Outcome.String()
	}
	if err != nil {
		t.fenced = t.recorded != nil && t.recorded == w.row(&t.held)
		w.end(i)
		return fmt.Sprintf("%s: %v", line, err)
	}
	switch {
	case got.State.Final():
		w.read(i, got.Response, got.SettledAt)
	case got.State == claim.FailedRetry:
		w.read(i, &got.Refusal.Response, time.Time{})
	case t.verdict.Outcome.String() == claim.OutcomeMoved:
		t.phase, t.moved = moving, got.Fence
	case got.Interim != nil:
		w.read(i, &got.Interim.Response, time.Time{})
	default:
		w.end(i)
	}
	return fmt.Sprintf("%s: %s", line, got.State)
}

func (w *world) renew(i int) string {
	t, s := &w.tasks[i], w.by(w.tasks[i].region)
	kept, _ := s.Renew(context.Background(), t.node, []claim.Lease{{Key: t.held.Key, Home: t.held.Home, Fence: t.held.Fence}})
	if !kept[0] {
		t.trust = 0
		return w.who(i) + " cannot renew its lease"
	}
	left := int(w.row(&t.held).LeaseUntil.Sub(s.now) / time.Second)
	t.until = w.time + left
	t.trust = t.until - int(s.policy.LeaseMargin/time.Second)
	return w.who(i) + " renews its lease"
}

// read gives task i's caller an answer, which was final since that time.
func (w *world) read(i int, r *claim.Response, final time.Time) {
	if i < len(w.asks) {
		it := reading{w.asks[i].key, w.asks[i].body, fmt.Sprintf("%d %s", r.Status, r.Body), final}
		if !slices.Contains(w.said, it) {
			w.said = append(w.said, it)
		}
	}
	w.end(i)
}

// end has request i be over, and a worker free for the next row.
func (w *world) end(i int) {
	t := &w.tasks[i]
	*t = task{phase: over, region: w.regionOf(i), fenced: t.fenced, early: t.early}
	if i >= len(w.asks) {
		t.phase, t.fenced = idle, false
	}
}

// detach makes task i stop waiting for its call, which goes on its way.
func (w *world) detach(i int) {
	for c := range w.calls {
		if w.calls[c].task == i {
			w.calls[c].task = -1
		}
	}
}

// delay leaves a copy of task i's verdict on its way to the store.
func (w *world) delay(i int) {
	t := &w.tasks[i]
	w.late = append(w.late, letter{held: t.held, verdict: t.verdict, region: t.region})
}

// nodes are those on which something would be lost.
func (w *world) nodes() (all []string) {
	for i := range w.tasks {
		if t := &w.tasks[i]; t.phase >= holding && t.phase != over {
			all = append(all, w.name(i, t.region))
		}
	}
	sort.Strings(all)
	return slices.Compact(all)
}

// crash ends what runs on node, which starts again at once under another name. What it has sent
// goes on its way.
func (w *world) crash(node string) string {
	w.crashed++
	for i := range w.tasks {
		t := &w.tasks[i]
		if t.phase < holding || t.phase == over || w.name(i, t.region) != node {
			continue
		}
		if t.phase == settling && t.recorded == nil {
			w.delay(i)
		}
		w.detach(i)
		w.end(i)
	}
	return "node " + node + " crashes and starts again"
}

// incarnation is the holder's name of node: new after each crash, wherever it was.
func (w *world) incarnation(node string) string { return node + "#" + strconv.Itoa(w.crashed) }

// sweep deletes the claims that no longer count, as the stores do.
func (w *world) sweep() string {
	s, p := w.by(asia), &w.store.policy
	var gone []string
	for at, rec := range s.rows {
		if rec.Age(p, s.now) == claim.Gone && !s.now.Before(rec.FreeAt(p, s.now).Add(p.PinGrace)) {
			delete(s.rows, at)
			gone = append(gone, rec.Minted.ID)
		}
	}
	if gone == nil {
		return ""
	}
	sort.Strings(gone)
	return "the sweep deletes " + strings.Join(gone, ", ")
}

// encode writes all that the future of w depends on, in one order.
func (w *world) encode(b *bytes.Buffer) {
	put := func(all ...any) { fmt.Fprintln(b, all...) }
	since := func(t time.Time) int64 { return t.Sub(dawn).Milliseconds() }
	put(w.time, w.crashed, w.lost, w.moved, w.store.registrar, w.store.former)
	if w.restores {
		w.putRestore(b)
	}
	for i := range w.page {
		put(w.page[i].at, w.page[i].Key.Value, since(w.page[i].CreatedAt))
	}
	for _, key := range w.keys() {
		for _, r := range registrars {
			if pin := w.store.pins[pinPlace{r, key}]; pin != nil {
				put(r, pin.Home, since(pin.CreatedAt))
			}
		}
		for _, home := range regions {
			r := w.store.rows[claimtest.Place{Home: home, Key: key}]
			if r == nil {
				put("no row")
				continue
			}
			// Operation and fingerprint follow from the object's id.
			put(r.State, r.Fence, r.Holder, since(r.LeaseUntil), since(r.FirstUse), r.Minted.ID, r.Generation, r.Unknowns, r.NotFounds, r.Reason, since(r.SettledAt), r.Verdict, r.Interim != nil, r.Canceled())
			if w.renews { // else nothing reads it
				put(since(r.HeldSince))
			}
			if r.Response != nil {
				put(string(r.Response.Body))
			}
			if r.Refusal != nil {
				put(string(r.Refusal.Response.Body), since(r.Refusal.At))
			}
			if len(w.banks) > 0 {
				put(r.Operation, r.ProviderKey, r.ProviderRef)
				if r.Interim != nil {
					put(r.Interim.State, r.Interim.By)
				}
			}
			own := claimtest.Ref{Home: home, ID: r.Minted.ID}
			m, queued := w.store.queued[outbox.ProviderCalls][own]
			_, booked := w.store.books[own]
			_, unpaid := w.store.unpaid[own]
			put(queued, since(m.Due), booked, unpaid)
		}
	}
	for i := range w.tasks {
		t := &w.tasks[i]
		put(t.phase, t.home, t.region, t.node, since(t.pinned), t.held.Minted.ID, t.held.Fence, t.held.Unknowns, t.held.NotFounds, t.recovery, t.cleared, t.trust, t.until, t.recorded != nil, t.recorded == w.row(&t.held), t.fenced, t.early)
		if slices.Contains(w.decides, "soft") { // else nothing reads it
			put(t.began)
		}
		if t.old != nil {
			put(t.old.at, t.old.Home, since(t.old.CreatedAt), t.anew.Home, since(t.anew.CreatedAt))
		}
		putVerdict(b, &t.verdict)
	}
	if len(w.banks) > 0 {
		sorted(b, slices.Collect(maps.Values(w.store.books)), func(t ledger.Transaction) { put(t.ID, t.Kind, t.Amount, t.ProviderRef) })
		for i := range w.tasks {
			put(w.tasks[i].provider, string(w.tasks[i].body), w.tasks[i].moved)
		}
	}
	sorted(b, w.calls, func(c call) { put(c) })
	sorted(b, w.orders, func(o order) { put(o) })
	sorted(b, w.late, func(l letter) { put(l.region); putVerdict(b, &l.verdict) })
	sorted(b, w.moves, func(m movement) { put(m) })
	sorted(b, w.gaveUp, func(id string) { put(id) })
	sorted(b, slices.Collect(maps.Keys(w.store.queued[outbox.Expiries])), func(r claimtest.Ref) { put(r) })
	sorted(b, w.said, func(s reading) { put(s.key, s.body, s.answer, since(s.final)) })
}

// putVerdict writes v. Its id names the row that it is about.
func putVerdict(b *bytes.Buffer, v *claim.Verdict) {
	if v.Outcome != nil {
		u, _ := v.Outcome.(*claim.Unknown)
		fmt.Fprintln(b, v.ID, v.Outcome, u != nil && u.NotFound)
		if done, ok := v.Outcome.(*claim.Done); ok {
			fmt.Fprintln(b, string(done.Response.Body))
		}
	}
}

// sorted writes all, in an order that does not depend on when they came.
func sorted[T any](b *bytes.Buffer, all []T, put func(T)) {
	texts := make([]string, len(all))
	for i, v := range all {
		from := b.Len()
		put(v)
		texts[i] = string(b.Bytes()[from:])
		b.Truncate(from)
	}
	sort.Strings(texts)
	fmt.Fprintln(b, len(texts), strings.Join(texts, ""))
}

func (w *world) keys() (all []claim.Key) {
	for i := range w.asks {
		if key := w.key(i); !slices.Contains(all, key) {
			all = append(all, key)
		}
	}
	asked := len(all)
	for at := range w.store.rows { // those of the compensator
		if !slices.Contains(all, at.Key) {
			all = append(all, at.Key)
		}
	}
	slices.SortFunc(all[asked:], claim.Key.Compare)
	return all
}
