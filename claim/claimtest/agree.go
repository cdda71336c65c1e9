package claimtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// Agree runs random operations against two backends with one policy, whose clocks show the same
// time, and compares each answer. It has what [Random] has no model of: moves of a registrar,
// statuses of regions, sweeps, and the work of queues. It compares nothing that a store may decide:
// when a row past its tombstone is deleted, the order of rows that are due at once, the jitter of a
// back-off.
func Agree(t *testing.T, one, other Harness) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &pair{T: rt, outer: t, ctx: t.Context(), both: [2]Harness{one, other}, tenant: fmt.Sprintf("pair%d", randomRuns.Add(1))}
		p.on(func(h *Harness) any { h.PutTenant(t, claim.Tenant{ID: p.tenant, Registrar: h.Regions[0]}); return nil })
		p.wait(time.Second)
		// An operation is drawn as often as it is named.
		rt.Repeat(map[string]func(*rapid.T){
			"arrive": p.step(p.arrive), "arrive again": p.step(p.arrive), "arrive once more": p.step(p.arrive),
			"settle": p.step(p.settle), "settle again": p.step(p.settle), "take over": p.step(p.takeOver), "cancel": p.step(p.cancel), "renew": p.step(p.renew),
			"take": p.step(p.take), "take again": p.step(p.take), "work": p.step(p.work), "work again": p.step(p.work), "unpark": p.step(p.unpark),
			"pin": p.step(p.pin), "registrar": p.step(p.moveRegistrar), "status": p.step(p.setStatus),
			"time passes": p.step(p.timePasses), "time passes again": p.step(p.timePasses), "sweep": p.step(p.sweep),
			"compare": p.step(p.compare),
		})
		p.T = rt
		p.compare()
		for _, region := range one.Regions {
			p.on(func(h *Harness) any { h.SetStatus(t, region, claim.RegionActive); return nil })
		}
	})
}

type pair struct {
	*rapid.T
	outer  *testing.T
	ctx    context.Context
	both   [2]Harness
	tenant string
	minted int
	taken  []taken
	moved  bool // the registrar
}

// taken is a row that a worker took, on both sides.
type taken struct {
	queue  outbox.Queue
	region string
	outbox.Hold
}

func (p *pair) step(f func()) func(*rapid.T) {
	return func(t *rapid.T) {
		p.T = t
		f()
	}
}

// on calls f for both backends, which are to answer the same.
func (p *pair) on(f func(h *Harness) any) any {
	p.Helper()
	got := [2]any{f(&p.both[0]), f(&p.both[1])}
	if !reflect.DeepEqual(got[0], got[1]) {
		p.Fatalf("one answers\n%+v, the other\n%+v", got[0], got[1])
	}
	return got[0]
}

// answered is what a step returned, as two backends can be compared.
type answered struct {
	Value any
	Err   string
}

// sentinels are the errors that a step may return.
var sentinels = []error{
	claim.ErrFenced, claim.ErrLeaseHeld, claim.ErrNoNewHomes, claim.ErrNeedPin, claim.ErrUnavailable, claim.ErrUnknownTenant, claim.ErrNoResponse, outbox.ErrFenced,
}

func (p *pair) answer(value any, err error) any {
	p.Helper()
	if err == nil {
		return answered{Value: value}
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return answered{Err: s.Error()}
		}
	}
	p.Fatal(err)
	return nil
}

func (p *pair) region(label string) string {
	return rapid.SampledFrom(p.both[0].Regions).Draw(p.T, label)
}

// key draws one of the tenant's five keys: a stamped one of each region, or one of two opaque ones.
func (p *pair) key() (k claim.Key, home string, stamped bool) {
	i := rapid.IntRange(0, 4).Draw(p.T, "key")
	if i < 3 {
		return claim.Key{Tenant: p.tenant, Value: fmt.Sprintf("stamped%d", i)}, p.both[0].Regions[i], true
	}
	return claim.Key{Tenant: p.tenant, Value: fmt.Sprintf("order-%d", i)}, p.region("home"), false
}

func (p *pair) arrive() {
	key, home, stamped := p.key()
	p.minted++
	a := NewArrival(key, home, rapid.SampledFrom([]string{"100", "200"}).Draw(p.T, "body"), rapid.SampledFrom([]string{"n1", "n2"}).Draw(p.T, "holder"), fmt.Sprintf("ch_%s_%d", p.tenant, p.minted))
	if rapid.IntRange(0, 4).Draw(p.T, "gives up") == 0 {
		a.Operation = claim.CancelKey
	}
	a.UnderWay = rapid.SampledFrom([]time.Duration{0, 0, time.Minute}).Draw(p.T, "under way")
	a.CompareOnly = rapid.IntRange(0, 9).Draw(p.T, "compare only") == 0
	if a.Stamped = stamped; !stamped {
		switch rapid.IntRange(0, 2).Draw(p.T, "pin") {
		case 0:
			a.PinHere = true
		case 1:
			pin := p.on(func(h *Harness) any { return p.answer(pinned(h.Store(home).Pin(p.ctx, key, home))) }).(answered)
			if pin.Err != "" {
				return
			}
			a.PinnedAt, a.Home = pin.Value.(claim.Pin).CreatedAt, pin.Value.(claim.Pin).Home
		}
	}
	from := p.region("from")
	p.on(func(h *Harness) any {
		a := a
		got, err := h.Store(from).Begin(p.ctx, a)
		if a.PinHere && err == nil && got.Decision == claim.NeedPin {
			// A store may not look what the obstacle is, and then it is looked at here.
			pin, perr := h.Store(from).Pin(p.ctx, a.Key, a.Home)
			if perr != nil || pin.Home != a.Home {
				return p.answer(pinned(pin, perr))
			}
			a.PinHere, a.PinnedAt = false, pin.CreatedAt
			got, err = h.Store(from).Begin(p.ctx, a)
		}
		if got.Decision == claim.NeedPin {
			return p.answer(claim.NeedPin, err)
		}
		return p.answer([]any{got.Decision, got.Now.UTC(), normal(got.Record)}, err)
	})
}

func pinned(pin claim.Pin, err error) (any, error) {
	pin.CreatedAt = pin.CreatedAt.UTC()
	return pin, err
}

func (p *pair) pin() {
	key := claim.Key{Tenant: p.tenant, Value: rapid.SampledFrom([]string{"order-3", "order-4"}).Draw(p.T, "key")}
	from, entry := p.region("from"), rapid.SampledFrom(append([]string{""}, p.both[0].Regions...)).Draw(p.T, "entry")
	p.on(func(h *Harness) any { return p.answer(pinned(h.Store(from).Pin(p.ctx, key, entry))) })
}

// held draws a claim as both backends have it, or as it never was.
func (p *pair) held() claim.Record {
	key, home, _ := p.key()
	rec, _ := p.on(func(h *Harness) any { return p.read(h, key, home) }).(claim.Record)
	if rec.Key == (claim.Key{}) {
		rec = claim.Record{Key: key, Home: home, Fence: 1, State: claim.InFlight, Minted: claim.Minted{ID: "ch_of_an_earlier_life"}}
	}
	switch rapid.IntRange(0, 11).Draw(p.T, "stale") {
	case 0:
		rec.Fence++
	case 1:
		rec.Fence--
	case 2:
		rec.Unknowns++
	case 3:
		rec.Minted.ID = "ch_of_an_earlier_life"
	}
	return rec
}

// read is the claim of key, nil for one that is past its tombstone or not there.
func (p *pair) read(h *Harness, key claim.Key, home string) any {
	rec, now, found, err := h.Store(home).Get(p.ctx, key, home)
	if err != nil {
		p.Fatal(err)
	}
	if !found || rec.Age(&h.Policy, now) == claim.Gone {
		return nil
	}
	return normal(rec)
}

func (p *pair) settle() {
	held, from, put := p.held(), p.region("from"), p.both[0].Policy.BackoffMax
	v := rapid.SampledFrom([]func() claim.Verdict{
		func() claim.Verdict { return approved("paid") },
		func() claim.Verdict { return declinedHard("stolen") },
		func() claim.Verdict { return declinedSoft("no funds") },
		func() claim.Verdict { return declinedFor("wait", put) },
		func() claim.Verdict { return pending("payer", put) },
		func() claim.Verdict { return ordered("bank", "cap_1") },
		func() claim.Verdict { return unsent(put) },
		func() claim.Verdict { return claim.Verdict{Outcome: &claim.Fault{RetryIn: put}} },
		func() claim.Verdict {
			return claim.Verdict{Outcome: &claim.Unknown{RetryIn: put, NotFound: rapid.Bool().Draw(p.T, "not found"), GiveUp: &claim.GivenUp{Response: answer(502, "given up")}}}
		},
	}).Draw(p.T, "verdict")()
	if rapid.Bool().Draw(p.T, "with effects") {
		if refused, ok := v.Outcome.(*claim.Refused); ok && held.State == claim.InFlight {
			moved := *refused
			moved.Posting, moved.Refund = Posting(held, held.Minted.ID), expiry(p.now())
			v.Outcome = &moved
		}
		withEffects(v, held, p.now().Add(p.both[0].Policy.Lease))
		events := Events(held, 2)
		for i := range events {
			p.minted++
			events[i].ID = fmt.Sprintf("evt_%s_%d", p.tenant, p.minted)
		}
		emitting(v, events)
	}
	v.ID = uuid.New()
	for range rapid.IntRange(1, 2).Draw(p.T, "times") {
		p.on(func(h *Harness) any {
			rec, err := h.Store(from).Settle(p.ctx, held, v)
			return p.answer(normal(rec), err)
		})
	}
}

func (p *pair) takeOver() {
	held, from := p.held(), p.region("from")
	p.on(func(h *Harness) any {
		rec, err := h.Store(from).TakeOver(p.ctx, held.Key, held.Home, held.Minted.ID, "heir", from, claim.News{})
		return p.answer(normal(rec), err)
	})
}

func (p *pair) cancel() {
	held, from, step := p.held(), p.region("from"), uuid.New()
	p.on(func(h *Harness) any {
		rec, err := h.Store(from).Cancel(p.ctx, held.Key, held.Home, held.Minted.ID, step, "clerk", from)
		return p.answer(normal(rec), err)
	})
}

func (p *pair) renew() {
	held, holder := p.held(), rapid.SampledFrom([]string{"n1", "n2", "heir"}).Draw(p.T, "holder")
	p.on(func(h *Harness) any {
		return p.answer(h.Store(held.Home).Renew(p.ctx, holder, []claim.Lease{{Key: held.Key, Home: held.Home, Fence: held.Fence}}))
	})
}

// queues are those that claims write to.
var queues = []outbox.Queue{outbox.ProviderCalls, outbox.Events, outbox.Expiries}

// take takes all that is due.
func (p *pair) take() {
	q, region := rapid.SampledFrom(queues).Draw(p.T, "queue"), p.region("region")
	lease := rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(p.T, "lease")
	rows := p.on(func(h *Harness) any {
		rows, err := h.Queue(region, q).Take(p.ctx, region, 10_000, lease)
		return p.answer(ofTenant(p.tenant, rows), err)
	}).(answered).Value.([]outbox.Message)
	for _, m := range rows {
		p.taken = append(p.taken, taken{q, region, m.Hold()})
	}
}

// work ends the work of a row that was taken.
func (p *pair) work() {
	if len(p.taken) == 0 {
		return
	}
	m := rapid.SampledFrom(p.taken).Draw(p.T, "taken")
	if rapid.IntRange(0, 4).Draw(p.T, "of another take") == 0 {
		m.Fence++
	}
	how := rapid.SampledFrom([]string{"finish", "retry", "postpone", "park", "finish all", "retry all"}).Draw(p.T, "how")
	p.on(func(h *Harness) any {
		s := h.Queue(m.region, m.queue)
		switch how {
		case "finish":
			return p.answer(nil, s.Finish(p.ctx, m.region, m.Hold))
		case "retry":
			return p.answer(nil, s.Retry(p.ctx, m.region, m.Hold, time.Second, "no answer"))
		case "postpone":
			return p.answer(nil, s.Retry(p.ctx, m.region, m.Hold, time.Minute, ""))
		case "park":
			return p.answer(nil, s.Park(p.ctx, m.region, m.Hold, "poison"))
		case "finish all":
			return p.answer(nil, s.FinishAll(p.ctx, m.region, []outbox.Hold{m.Hold}))
		default:
			return p.answer(nil, s.RetryAll(p.ctx, m.region, []outbox.Delay{{Hold: m.Hold, After: time.Second, Reason: "no answer"}}))
		}
	})
	if m.queue == outbox.Events {
		// A take may postpone what it finds behind the row: by a second, or until the row is due
		// again, a minute later at most. The embedded store does not.
		p.wait(time.Minute + time.Second)
	}
}

func (p *pair) unpark() {
	if len(p.taken) == 0 {
		return
	}
	m := rapid.SampledFrom(p.taken).Draw(p.T, "taken")
	p.on(func(h *Harness) any { return p.answer(h.Queue(m.region, m.queue).Unpark(p.ctx, m.region, m.ID)) })
}

// ofTenant returns the rows of one tenant by id, with times that can be compared.
func ofTenant(tenant string, rows []outbox.Message) []outbox.Message {
	own := []outbox.Message{}
	for _, m := range rows {
		if m.Tenant == tenant {
			if m.CreatedAt, m.Due = m.CreatedAt.UTC(), m.Due.UTC(); m.Parked {
				m.Due = time.Time{} // it is never due
			}
			own = append(own, m)
		}
	}
	slices.SortFunc(own, func(a, b outbox.Message) int { return cmp.Compare(a.ID, b.ID) })
	return own
}

// moveRegistrar moves it once: a second move is refused while pins of before count.
func (p *pair) moveRegistrar() {
	if p.moved {
		return
	}
	p.moved = true
	to := p.region("to")
	p.on(func(h *Harness) any { h.MoveRegistrar(p.outer, p.tenant, to); return nil })
}

func (p *pair) setStatus() {
	region, status := p.region("region"), rapid.SampledFrom([]claim.RegionStatus{claim.RegionActive, claim.RegionActive, claim.RegionDraining}).Draw(p.T, "status")
	p.on(func(h *Harness) any { h.SetStatus(p.outer, region, status); return nil })
}

func (p *pair) sweep() {
	p.on(func(h *Harness) any { h.Sweep(p.outer); return nil })
}

func (p *pair) timePasses() {
	of := p.both[0].Policy
	p.wait(rapid.SampledFrom([]time.Duration{
		time.Second, time.Second, of.Lease, of.LeaseCeiling, of.BackoffMax, of.PinGrace, of.ReplayFor, of.TombstoneFor, of.PinLife(),
	}).Draw(p.T, "time"))
}

func (p *pair) wait(d time.Duration) {
	p.on(func(h *Harness) any { h.Advance(d); return nil })
}

func (p *pair) now() time.Time {
	return p.on(func(h *Harness) any {
		_, now, _, err := h.Store(h.Regions[0]).Get(p.ctx, claim.Key{Tenant: p.tenant, Value: "clock"}, h.Regions[0])
		return p.answer(now.UTC(), err)
	}).(answered).Value.(time.Time)
}

// compare reads back all that the tenant has.
func (p *pair) compare() {
	now := p.now()
	p.on(func(h *Harness) any { return p.answer(h.Store(h.Regions[0]).Registrar(p.ctx, p.tenant)) })
	for _, region := range p.both[0].Regions {
		for _, value := range []string{"stamped0", "stamped1", "stamped2", "order-3", "order-4"} {
			key := claim.Key{Tenant: p.tenant, Value: value}
			rec, ok := p.on(func(h *Harness) any { return p.read(h, key, region) }).(claim.Record)
			if !ok {
				continue
			}
			p.on(func(h *Harness) any {
				line, err := h.Store(region).Timeline(p.ctx, key, region, 1000)
				for i := range line {
					line[i].At = line[i].At.UTC()
				}
				return p.answer(line, err)
			})
			p.on(func(h *Harness) any {
				rec, _, found, err := h.Store(region).Object(p.ctx, p.tenant, region, rec.Minted.ID)
				return p.answer([]any{found, normal(rec)}, err)
			})
			p.on(func(h *Harness) any {
				u, found, err := h.Store(region).Unpaid(p.ctx, region, rec.Minted.ID)
				u.At = u.At.UTC()
				return p.answer([]any{found, u}, err)
			})
			p.on(func(h *Harness) any {
				booked, found, err := h.Ledger(region).Transaction(p.ctx, region, rec.Minted.ID)
				booked.At = booked.At.UTC()
				return p.answer([]any{found, booked}, err)
			})
		}
		for _, q := range queues {
			p.on(func(h *Harness) any {
				rows, err := h.Queue(region, q).Parked(p.ctx, region, "", 10_000)
				return p.answer(ofTenant(p.tenant, rows), err)
			})
		}
	}
	for _, m := range p.taken {
		p.on(func(h *Harness) any {
			row, found, err := h.Queue(m.region, m.queue).Message(p.ctx, m.region, m.ID)
			return p.answer([]any{found, ofTenant(p.tenant, []outbox.Message{row})}, err)
		})
	}
	if again := p.now(); !again.Equal(now) {
		p.Fatalf("the clock moved from %v to %v", now, again)
	}
}
