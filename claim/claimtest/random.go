package claimtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

var randomRuns atomic.Int64

// Random runs random operations against a backend and the [Model] side by side. After
// each operation it compares the answer and every row. Opaque keys go through pins, and
// no two homes may own one key. It needs a movable clock.
func Random(t *testing.T, h Harness) {
	if h.Advance == nil {
		t.Skip("the model computes times exactly and needs a clock that the test can move")
	}
	rapid.Check(t, func(rt *rapid.T) {
		// A separate tenant keeps one run apart from the next.
		r := &random{
			Harness: h, ctx: t.Context(), model: NewModel(h.Policy), keys: map[string]providerUse{},
			tenant: fmt.Sprintf("t%d", randomRuns.Add(1)),
		}
		h.PutTenant(t, claim.Tenant{ID: r.tenant, Registrar: h.Regions[0]})
		r.start = r.now(rt).Add(time.Microsecond)
		h.Advance(time.Microsecond)
		for _, region := range h.Regions {
			r.backlog = append(r.backlog, r.depths(rt, region))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"arrive":         r.arrive,
			"arrive, pinned": r.arrivePinned,
			"settle":         r.settle,
			"take over":      r.takeOver,
			"cancel":         r.cancel,
			"renew":          r.renew,
			"replica":        r.replica,
			"time passes":    r.wait,
			"":               r.compare,
		})
	})
}

type random struct {
	Harness
	ctx     context.Context
	model   *Model
	tenant  string
	minted  int
	settled int
	backlog []backlog // of each region before the run
	start   time.Time // of the run; earlier postings belong to others
	keys    map[string]providerUse
}

// backlog is how many rows the queues hold.
type backlog struct{ calls, events, expiries int }

// providerUse records what one provider key was used for: it must never be used for
// anything else.
type providerUse struct {
	place      Place
	first      time.Time
	generation uint32
}

func (r *random) region(t *rapid.T, label string) string {
	return rapid.SampledFrom(r.Regions).Draw(t, label)
}

func (r *random) place(t *rapid.T) Place {
	// Stamped keys name their home: key 0 lives in region 0 and so on.
	i := rapid.IntRange(0, len(r.Regions)-1).Draw(t, "stamped key")
	return Place{Home: r.Regions[i], Key: claim.Key{Tenant: r.tenant, Value: fmt.Sprintf("stamped%d", i)}}
}

func (r *random) opaque(t *rapid.T) claim.Key {
	return claim.Key{Tenant: r.tenant, Value: rapid.SampledFrom([]string{"order-1", "order-2"}).Draw(t, "opaque key")}
}

// claimed draws a place that has a claim, or any stamped one.
func (r *random) claimed(t *rapid.T) Place {
	places := []Place{r.place(t)}
	for _, home := range r.Regions {
		for _, k := range []string{"order-1", "order-2"} {
			if at := (Place{home, claim.Key{Tenant: r.tenant, Value: k}}); r.model.Cells[at] != nil {
				places = append(places, at)
			}
		}
	}
	return rapid.SampledFrom(places).Draw(t, "place")
}

func (r *random) now(t *rapid.T) time.Time {
	_, now, _, err := r.Store(r.Regions[0]).Get(r.ctx, claim.Key{Tenant: r.tenant, Value: "clock"}, r.Regions[0])
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func (r *random) wait(t *rapid.T) {
	p := r.Policy
	r.Advance(rapid.SampledFrom([]time.Duration{
		time.Microsecond, time.Second, p.RenewEvery, p.Lease, p.LeaseCeiling, p.BackoffMax,
		p.PinGrace / 2, p.PinGrace, p.ReplayFor - p.PinGrace, p.ReplayFor, p.TombstoneFor, p.PinLife(),
	}).Draw(t, "time"))
}

func (r *random) arrive(t *rapid.T) { r.begin(t, r.place(t), nil) }

func (r *random) arrivePinned(t *rapid.T) {
	key := r.opaque(t)
	entry := r.region(t, "entry")
	now := r.now(t)
	pin, err := r.Store(entry).Pin(r.ctx, key, entry)
	if err != nil {
		t.Fatal(err)
	}
	want := r.model.Pin(key, entry, now)
	if pin.Home != want.Home || !pin.CreatedAt.Equal(want.At) {
		t.Fatalf("pin of %v is %s at %v, the model has %s at %v", key, pin.Home, pin.CreatedAt, want.Home, want.At)
	}
	// The entry may be slow, or crash, before it uses the pin.
	if rapid.Bool().Draw(t, "slow") {
		r.wait(t)
	}
	r.begin(t, Place{pin.Home, key}, &pin.CreatedAt)
}

func (r *random) begin(t *rapid.T, at Place, pinned *time.Time) {
	body := rapid.SampledFrom([]string{"100", "100", "200", "200", GiveUp}).Draw(t, "body")
	r.minted++
	id := fmt.Sprintf("ch_%s_%d", r.tenant, r.minted)
	holder := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "holder")
	a := NewArrival(at.Key, at.Home, body, holder, id)
	if body == GiveUp {
		a.Operation = claim.CancelKey
	}
	if pinned != nil {
		a.Stamped, a.PinnedAt = false, *pinned
	}
	a.UnderWay = rapid.SampledFrom([]time.Duration{0, 0, time.Second, r.Policy.Lease, r.Policy.ReplayFor}).Draw(t, "under way")
	now, sentAt := r.now(t), time.Now()
	got, err := r.Store(r.region(t, "from")).Begin(r.ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	if got.Decision == claim.Shared && r.model.Shares(at, body, a.UnderWay+time.Since(sentAt), now) {
		r.equal(t, at, got.Record) // a store adds the time that it takes itself
		return
	}
	if want := r.model.Arrive(at, body, id, holder, pinned, a.UnderWay, now); got.Decision != want {
		t.Fatalf("begin of %v: %v, want %v", at, got.Decision, want)
	}
	if got.Decision != claim.NeedPin {
		r.equal(t, at, got.Record)
	}
}

func (r *random) settle(t *rapid.T) {
	at := r.claimed(t)
	held := r.held(t, at)
	v := rapid.SampledFrom([]claim.Verdict{
		approved("paid"), declinedHard("stolen"), declinedSoft("no funds"), unknown(false), unknown(true),
		{Outcome: &claim.Unknown{RetryIn: r.Policy.Lease, GiveUp: &claim.GivenUp{Response: answer(502, "given up")}}},
		{Outcome: &claim.Unknown{}},
		pending("payer", 0), pending("payer", r.Policy.Lease), pending("bank", r.Policy.BackoffMax), ordered("bank", "cap_1"), declinedFor("wait", r.Policy.Lease),
		unsent(0), unsent(r.Policy.Lease), {Outcome: &claim.Fault{}},
	}).Draw(t, "verdict")
	now := r.now(t)
	if rapid.Bool().Draw(t, "with effects") {
		r.settled++
		if done, ok := withEffects(v, held, now.Add(r.Policy.ReplayFor)).Outcome.(*claim.Done); ok && rapid.IntRange(0, 9).Draw(t, "booked before") == 0 {
			done.Posting.ID = "ch_" + r.tenant + "_shared"
		}
		if refused, ok := v.Outcome.(*claim.Refused); ok && held.State == claim.InFlight && rapid.Bool().Draw(t, "moved all the same") {
			moved := *refused
			moved.Posting, moved.Refund = Posting(held, held.Minted.ID), expiry(now)
			v.Outcome = &moved
		}
		events := Events(held, rapid.IntRange(0, 2).Draw(t, "events"))
		for i := range events {
			events[i].ID = fmt.Sprintf("evt_%s_%d/%d", r.tenant, r.settled, i)
		}
		emitting(v, events)
	}
	v.ID = uuid.New()
	rec, err := r.Store(r.region(t, "from")).Settle(r.ctx, held, v)
	if err == nil && rapid.Bool().Draw(t, "said again") {
		again, err := r.Store(r.region(t, "from")).Settle(r.ctx, held, v)
		if err != nil || !reflect.DeepEqual(normal(again), normal(rec)) {
			t.Fatalf("settle of %v, repeated: %v, %+v and not %+v", at, err, again, rec)
		}
	}
	want, fair := r.model.Learn(at, held, v, rec.LeaseUntil, now)
	switch {
	case !errors.Is(err, want):
		t.Fatalf("settle of %v: %v, want %v", at, err, want)
	case !fair:
		t.Fatalf("settle of %v: the next attempt is at %v, %v from now", at, rec.LeaseUntil, rec.LeaseUntil.Sub(now))
	case err == nil:
		r.equal(t, at, rec)
	}
}

// held returns the claim as its holder may have read it: mostly as it is, sometimes as it was
// before a verdict was recorded, or from an earlier life of the key.
func (r *random) held(t *rapid.T, at Place) claim.Record {
	rec, _, found, err := r.Store(at.Home).Get(r.ctx, at.Key, at.Home)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		rec = claim.Record{Key: at.Key, Home: at.Home, Minted: claim.Minted{ID: "ch_of_an_earlier_life"}}
	}
	rec.Fence = r.fence(t, at)
	switch rapid.SampledFrom([]string{"", "", "", "", "", "", "unknowns", "id", "state"}).Draw(t, "stale") {
	case "unknowns":
		rec.Unknowns++
	case "id":
		rec.Minted.ID = "ch_of_an_earlier_life"
	case "state":
		rec.State = claim.InFlight
	}
	return rec
}

func (r *random) fence(t *rapid.T, at Place) uint64 {
	fence := uint64(1)
	if c := r.model.Cells[at]; c != nil {
		fence = c.Fence
	}
	// Mostly the right fence; sometimes that of an earlier or later holder.
	return fence + uint64(rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}).Draw(t, "fence"))
}

func (r *random) takeOver(t *rapid.T) {
	at := r.claimed(t)
	now := r.now(t)
	id := "ch_of_an_earlier_life"
	if c := r.model.Cells[at]; c != nil && rapid.IntRange(0, 4).Draw(t, "of this life") > 0 {
		id = c.ID
	}
	heard := false
	news := claim.News{Generation: uint32(rapid.IntRange(0, 3).Draw(t, "news of a generation"))}
	if row, _, found, err := r.Store(at.Home).Get(r.ctx, at.Key, at.Home); err == nil && found {
		_, named := row.With([]string{""})
		heard = named && row.Generation == news.Generation
	}
	rec, err := r.Store(r.region(t, "from")).TakeOver(r.ctx, at.Key, at.Home, id, "heir", at.Home, news)
	if want := r.model.Inherit(at, id, "heir", heard, now); !errors.Is(err, want) {
		t.Fatalf("take-over of %v: %v, want %v", at, err, want)
	}
	if err == nil {
		r.equal(t, at, rec)
	}
}

func (r *random) cancel(t *rapid.T) {
	at := r.claimed(t)
	now := r.now(t)
	id := "ch_of_an_earlier_life"
	if c := r.model.Cells[at]; c != nil && rapid.IntRange(0, 4).Draw(t, "of this life") > 0 {
		id = c.ID
	}
	rec, err := r.Store(r.region(t, "from")).Cancel(r.ctx, at.Key, at.Home, id, uuid.New(), "clerk", at.Home)
	if want := r.model.Cancel(at, id, now); !errors.Is(err, want) {
		t.Fatalf("canceling %v: %v, want %v", at, err, want)
	}
	if err == nil {
		r.equal(t, at, rec)
	}
}

func (r *random) renew(t *rapid.T) {
	holder := rapid.SampledFrom([]string{"n1", "n2", "heir"}).Draw(t, "holder")
	now := r.now(t)
	var leases []claim.Lease
	var want []bool
	for _, i := range rapid.Permutation([]int{0, 1, 2}).Draw(t, "claims") {
		at := Place{r.Regions[i], claim.Key{Tenant: r.tenant, Value: fmt.Sprintf("stamped%d", i)}}
		l := claim.Lease{Key: at.Key, Home: at.Home, Fence: r.fence(t, at)}
		leases = append(leases, l)
		want = append(want, r.model.Renew(at, holder, l.Fence, now))
	}
	got, err := r.Store(r.region(t, "from")).Renew(r.ctx, holder, leases)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("renewing %v: %v, want %v", leases, got, want)
	}
}

func (r *random) replica(t *rapid.T) {
	at := r.claimed(t)
	now := r.now(t)
	got, err := r.Store(r.region(t, "from")).Replica(r.ctx, at.Key)
	if err != nil {
		t.Fatal(err)
	}
	rec := got.Record
	if rec == nil {
		return // absence proves nothing
	}
	shown := Place{rec.Home, rec.Key}
	if !r.model.MayShow(shown, now) {
		t.Fatalf("a replica shows %v, which is not final and live", shown)
	}
	r.equal(t, shown, *rec)
}

// compare reads every row back.
func (r *random) compare(t *rapid.T) {
	now := r.now(t)
	working := map[string]int{}
	for at, c := range r.model.Cells {
		rec, _, found, err := r.Store(at.Home).Get(r.ctx, at.Key, at.Home)
		if err != nil || !found {
			t.Fatalf("get of %v: found %v, %v", at, found, err)
		}
		r.equal(t, at, rec)
		if c.Status == Working {
			working[at.Home]++
		}
		use := providerUse{at, c.First, c.Generation}
		if other, ok := r.keys[rec.ProviderKey]; ok && other != use {
			t.Fatalf("provider key %s was used for %v and for %v", rec.ProviderKey, other, use)
		}
		for k, other := range r.keys {
			if other == use && k != rec.ProviderKey {
				t.Fatalf("%v has had the provider keys %s and %s", use, k, rec.ProviderKey)
			}
		}
		r.keys[rec.ProviderKey] = use
		if homes := r.model.Owners(at.Key, now); len(homes) > 1 {
			t.Fatalf("%v has a claim that owns it in %v", at.Key, homes)
		}
	}
	for i, region := range r.Regions {
		want := backlog{calls: working[region]}
		books := map[string]ledger.Transaction{}
		for ref, m := range r.model.Events {
			if ref.Home == region {
				want.events++
				r.sameRow(t, outbox.Events, m)
			}
		}
		for ref, m := range r.model.Expiring {
			if ref.Home == region {
				want.expiries++
				r.sameRow(t, outbox.Expiries, m)
			}
		}
		for ref, u := range r.model.Unpaid {
			if ref.Home == region {
				r.sameUnpaid(t, u)
			}
		}
		for ref, post := range r.model.Books {
			if ref.Home == region {
				books[ref.ID] = post
			}
		}
		was := r.backlog[i]
		want = backlog{was.calls + want.calls, was.events + want.events, was.expiries + want.expiries}
		if got := r.depths(t, region); got != want {
			t.Fatalf("%s has %+v rows in its outbox, the model %+v", region, got, want)
		}
		r.balanced(t, region, books)
	}
}

// placed reports whether a row written at a time may have this CreatedAt: a store may put an
// event behind those of the key's other lines, too, each a microsecond later.
func placed(at, created time.Time) bool {
	return !created.Before(at) && created.Sub(at) < time.Millisecond
}

// sameRow checks that a queue holds want.
func (r *random) sameRow(t *rapid.T, q outbox.Queue, want outbox.Message) {
	got, found, err := r.Queue(want.Region, q).Message(r.ctx, want.Region, want.ID)
	if err != nil || !found {
		t.Fatalf("%s of %s: found %v, %v", want.ID, q, found, err)
	}
	for _, m := range []*outbox.Message{&want, &got} {
		m.CreatedAt, m.Due = m.CreatedAt.UTC(), m.Due.UTC()
	}
	if placed(want.CreatedAt, got.CreatedAt) {
		got.CreatedAt = want.CreatedAt
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s holds\n%+v, the model\n%+v", q, got, want)
	}
}

// sameUnpaid checks that the [claim.Unpaid] rows are want.
func (r *random) sameUnpaid(t *rapid.T, want claim.Unpaid) {
	got, found, err := r.Store(want.Home).(rememberer).Unpaid(r.ctx, want.Home, want.Object)
	if err != nil || !found {
		t.Fatalf("what is remembered of %s: found %v, %v", want.Object, found, err)
	}
	if want.At, got.At = want.At.UTC(), got.At.UTC(); got != want {
		t.Fatalf("remembered is\n%+v, the model has\n%+v", got, want)
	}
}

// balanced checks that the run's postings in a region are want.
func (r *random) balanced(t *rapid.T, region string, want map[string]ledger.Transaction) {
	booked, err := r.Ledger(region).Transactions(r.ctx, region, ledger.Position{At: r.start}, time.Time{}, len(want)+1)
	if err != nil {
		t.Fatal(err)
	}
	if len(booked) != len(want) {
		t.Fatalf("%s has %d transactions or more, the model %d", region, len(booked), len(want))
	}
	for _, got := range booked {
		if w := want[got.ID]; !w.Same(got) || !w.At.Equal(got.At) {
			t.Fatalf("%s has booked\n%+v, the model\n%+v", region, got, w)
		}
	}
}

func (r *random) depths(t *rapid.T, region string) (b backlog) {
	for q, n := range map[outbox.Queue]*int{outbox.ProviderCalls: &b.calls, outbox.Events: &b.events, outbox.Expiries: &b.expiries} {
		store := r.Outbox(region)
		if q != outbox.ProviderCalls {
			store = r.Queue(region, q)
		}
		d, err := store.Depth(r.ctx, region)
		if err != nil {
			t.Fatal(err)
		}
		*n = d.Pending + d.Parked
	}
	return b
}

func (r *random) equal(t *rapid.T, at Place, rec claim.Record) {
	c := r.model.Cells[at]
	if c == nil {
		t.Fatalf("%v has a row, the model has none", at)
	}
	states := map[Status]claim.State{Working: claim.InFlight, Paid: claim.Completed, Refused: claim.FailedTerminal, Released: claim.FailedRetry}
	reply := ""
	if rec.Response != nil {
		reply = string(rec.Response.Body)
	}
	var refusal claim.Refusal
	if rec.Refusal != nil {
		refusal = *rec.Refusal
	}
	var interim claim.Interim
	if rec.Interim != nil {
		interim = *rec.Interim
	}
	got := fmt.Sprint(rec.State, rec.Holder, rec.Fence, rec.Generation, rec.Attempts, rec.Unknowns, rec.NotFounds,
		rec.FirstUse.UTC(), rec.HeldSince.UTC(), rec.LeaseUntil.UTC(), rec.SettledAt.UTC(), rec.Minted.ID, reply, rec.Reason, rec.Response != nil,
		string(refusal.Response.Body), refusal.At.UTC(), string(interim.Response.Body), interim.State+interim.By, rec.CanceledAt.UTC())
	want := fmt.Sprint(states[c.Status], c.Holder, c.Fence, c.Generation, c.Attempts, c.Unknowns, c.NotFound,
		c.First.UTC(), c.Held.UTC(), c.Lease.UTC(), c.Settled.UTC(), c.ID, c.Reply, c.Reason, c.final(),
		c.Declined, c.DeclinedAt.UTC(), c.Interim, c.Waits, c.Canceled.UTC())
	if got != want {
		t.Fatalf("%v is\n%s, the model has\n%s", at, got, want)
	}
	if rec.Key != at.Key || rec.Home != at.Home {
		t.Fatalf("%v is stored as %v in %s", at, rec.Key, rec.Home)
	}
}
