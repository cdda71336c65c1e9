package audittest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
)

// Harness is one store under test, initially empty.
type Harness struct {
	claimtest.Harness
	// Audit returns the store as a node in a region sees it.
	Audit func(region string) audit.Store
	// Lag is the longest time after a commit until a page shows the row.
	Lag time.Duration
}

// Exercise checks every promise of the contract. newHarness opens a store for each
// subtest.
func Exercise(t *testing.T, newHarness func(t *testing.T) Harness) {
	for name, run := range map[string]func(w *world){
		"pages have every entry once, whatever their size": pages,
		"pages are of a window":                            windows,
		"pages have the claims in flight":                  inFlight,
		"entries of one claim are of several windows":      across,
		"pages are of a region":                            ofRegion,
		"entries name the tenant of their object":          objects,
		"pages outlive the claims' sweep":                  sweptMeanwhile,
		"audit is forgotten when its claim is":             forgotten,
		"chains move by compare-and-set":                   chains,
		"an exporter dies at each step":                    dies,
		"old books leave with all that belongs to them":    leaving,
		"books that may not leave do not":                  refusedBooks,
		"an exporter of old books dies at each step":       booksDie,
		"books that do not add up are found":               unbalanced,
		"books that do not add up stay":                    overRefunded,
	} {
		t.Run(name, func(t *testing.T) { run(newWorld(t, newHarness(t))) })
	}
}

type world struct {
	Harness
	*testing.T
	ctx   context.Context
	home  string
	start time.Time
}

func newWorld(t *testing.T, h Harness) *world {
	w := &world{Harness: h, T: t, ctx: t.Context(), home: h.Regions[0]}
	h.PutTenant(t, claim.Tenant{ID: "acme", Name: "Acme", Registrar: w.home})
	w.start = w.now()
	return w
}

func (w *world) now() time.Time {
	w.Helper()
	_, now, _, err := w.Audit(w.home).AuditChain(w.ctx, w.home)
	require.NoError(w, err)
	return now
}

// pass advances the store's clock. It moves the clock if it can, and else waits.
func (w *world) pass(d time.Duration) {
	w.Helper()
	if w.Advance != nil {
		w.Advance(d)
		return
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := w.now().Add(d); w.now().Before(until); {
		<-tick.C
	}
}

func key(n int) claim.Key { return claim.Key{Tenant: "acme", Value: fmt.Sprintf("order-%04d", n)} }

// begin begins a claim at home.
func (w *world) begin(k claim.Key, home string) claim.Record {
	w.Helper()
	a := claimtest.NewArrival(k, home, "1", "node-1", "ch_"+home+"_"+k.Value)
	got, err := w.Store(home).Begin(w.ctx, a)
	require.NoError(w, err)
	require.Equal(w, claim.Won, got.Decision)
	return got.Record
}

func (w *world) settle(rec claim.Record, v claim.Verdict) claim.Record {
	w.Helper()
	v.ID, v.Node, v.Region = uuid.New(), "node-1", rec.Home
	claimtest.Answer(v.Outcome, claim.Response{Status: 201, Body: []byte("a body")})
	got, err := w.Store(rec.Home).Settle(w.ctx, rec, v)
	require.NoError(w, err)
	return got
}

// charge is a whole claim: three entries.
func (w *world) charge(n int, home string) claim.Record {
	w.Helper()
	return w.settle(w.begin(key(n), home), claim.Verdict{Outcome: &claim.Done{ProviderRef: "psp_" + key(n).Value}})
}

// rowEntries is how many entries a row of audit may have; a claim may have one.
const rowEntries = 3

// all reads the audit of home in pages of some size.
func (w *world) all(home string, from, to time.Time, limit int) (all []audit.Entry) {
	w.Helper()
	for after, more := (audit.Position{}), true; more; {
		page, err := w.Audit(w.home).AuditPage(w.ctx, home, from, to, after, limit)
		require.NoError(w, err)
		require.LessOrEqual(w, len(page.Entries), (rowEntries+1)*limit)
		all, after, more = append(all, page.Entries...), page.Next, page.More
	}
	return all
}

// events names entries, without the members that differ between stores.
func events(all []audit.Entry) (names []string) {
	for _, e := range all {
		names = append(names, e.Key+" "+string(e.Event)+" "+e.Detail)
	}
	return names
}

func chargeEvents(numbers ...int) (names []string) {
	for _, n := range numbers {
		k := key(n).Value
		names = append(names, k+" claimed charge", k+" attempt done", k+" settled ")
	}
	return names
}

func pages(w *world) {
	rec := w.begin(key(1), w.home)
	for range w.Policy.MaxUnknowns - 1 { // more than a claim's row has room for
		rec = w.settle(rec, claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})
		w.pass(time.Millisecond)
	}
	w.settle(rec, claim.Verdict{Outcome: &claim.Done{}})
	w.charge(2, w.home)
	for range 3 {
		w.Store(w.home).Note(w.ctx, key(2), w.home, claim.AuditEntry{Event: claim.EventReplied, Region: w.home, Node: "n", Fence: 1, Generation: 1, Detail: "replay"})
	}
	line, err := w.Store(w.home).Timeline(w.ctx, key(2), w.home, 100) // which writes the notes
	require.NoError(w, err)
	require.Len(w, line, 6)
	w.charge(3, w.home)
	w.pass(w.Lag)
	whole := w.all(w.home, time.Time{}, time.Time{}, 1000)
	require.ElementsMatch(w, append(append(chargeEvents(2, 3), events(whole)[:2*w.Policy.MaxUnknowns+1]...), "order-0002 replied replay", "order-0002 replied replay", "order-0002 replied replay"), events(whole))
	require.Len(w, whole, int(2*w.Policy.MaxUnknowns+1)+6+3)
	ids := map[string]bool{}
	for i, e := range whole {
		require.False(w, ids[e.Key+e.ID], "ids are of one entry each")
		ids[e.Key+e.ID] = true
		require.Equal(w, "acme", e.Tenant)
		require.False(w, e.At.Before(w.start.Truncate(time.Microsecond)), "%v", e.At)
		require.Equal(w, time.UTC, e.At.Location())
		if i > 0 {
			require.LessOrEqual(w, whole[i-1].Key, e.Key)
		}
	}
	for limit := range 8 { // those of one key may come in another order
		require.ElementsMatch(w, whole, w.all(w.home, time.Time{}, time.Time{}, limit+1), "in pages of %d", limit+1)
	}
}

func inFlight(w *world) {
	held := map[int]claim.Record{}
	for _, n := range []int{1, 2, 4, 5, 6, 8} {
		held[n] = w.begin(key(n), w.home)
	}
	w.charge(3, w.home)
	w.charge(7, w.home)
	held[5] = w.settle(held[5], claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}}) // and goes on
	want := chargeEvents(3, 7)
	for _, n := range []int{1, 2, 4, 5, 6, 8} {
		want = append(want, key(n).Value+" claimed charge")
	}
	want = append(want, "order-0005 attempt unknown", "order-0005 deferred timeout")
	w.pass(w.Lag)
	ids := map[string]string{}
	for limit := range 10 {
		all := w.all(w.home, time.Time{}, time.Time{}, limit+1)
		require.ElementsMatch(w, want, events(all), "in pages of %d", limit+1)
		for i := range all {
			require.NotEmpty(w, all[i].Object)
			require.NotNil(w, all[i].Claim)
			name := events(all[i : i+1])[0]
			require.Contains(w, []string{"", all[i].ID}, ids[name])
			ids[name] = all[i].ID
		}
	}
	line, err := w.Store(w.home).Timeline(w.ctx, key(1), w.home, 10)
	require.NoError(w, err)
	require.Len(w, line, 1)
	w.settle(held[2], claim.Verdict{Outcome: &claim.Done{}})
	w.settle(held[5], claim.Verdict{Outcome: &claim.Done{}})
	w.pass(w.Lag)
	want = append(want, "order-0002 attempt done", "order-0002 settled ", "order-0005 attempt done", "order-0005 settled ")
	for limit := range 10 {
		all := w.all(w.home, time.Time{}, time.Time{}, limit+1)
		require.ElementsMatch(w, want, events(all), "in pages of %d", limit+1)
		for i := range all {
			if id, was := ids[events(all[i : i+1])[0]]; was {
				require.Equal(w, id, all[i].ID, "an entry is the same one wherever its store keeps it")
			}
		}
	}
}

func across(w *world) {
	rec := w.begin(key(1), w.home)
	w.charge(2, w.home)
	w.pass(10 * time.Millisecond)
	between := w.now()
	w.settle(rec, claim.Verdict{Outcome: &claim.Done{}})
	w.pass(w.Lag + time.Millisecond)
	before := w.all(w.home, time.Time{}, between, 1)
	require.Equal(w, append([]string{"order-0001 claimed charge"}, chargeEvents(2)...), events(before))
	require.Equal(w, []string{"order-0001 attempt done", "order-0001 settled "}, events(w.all(w.home, between, time.Time{}, 1)))
	if w.Sweep == nil || w.Advance == nil {
		return
	}
	w.gone()
	n, err := w.Audit(w.home).ForgetAudit(w.ctx, w.home, positions(before))
	require.NoError(w, err)
	require.GreaterOrEqual(w, n, 3)
	require.Equal(w, []string{"order-0001 attempt done", "order-0001 settled "}, events(w.all(w.home, between, time.Time{}, 1)), "what was not given stays")
	whole := w.all(w.home, time.Time{}, time.Time{}, 10)
	_, err = w.Audit(w.home).ForgetAudit(w.ctx, w.home, positions(whole))
	require.NoError(w, err)
	require.Empty(w, w.all(w.home, time.Time{}, time.Time{}, 10))
}

func windows(w *world) {
	w.charge(1, w.home)
	w.pass(10 * time.Millisecond)
	between := w.now()
	w.charge(2, w.home)
	w.pass(w.Lag + time.Millisecond)
	require.Equal(w, chargeEvents(1), events(w.all(w.home, time.Time{}, between, 2)))
	require.Equal(w, chargeEvents(2), events(w.all(w.home, between, time.Time{}, 2)))
	require.Equal(w, chargeEvents(1, 2), events(w.all(w.home, w.start.Truncate(time.Microsecond), w.now(), 2)))
	require.Empty(w, w.all(w.home, w.now(), time.Time{}, 2))
	at := w.all(w.home, time.Time{}, between, 2)[0].At
	require.NotEmpty(w, w.all(w.home, at, time.Time{}, 10), "from is of the window")
	require.NotContains(w, events(w.all(w.home, time.Time{}, at, 10)), "order-0001 claimed charge", "to is not")
}

func ofRegion(w *world) {
	there := w.Regions[1]
	w.charge(1, w.home)
	w.charge(1, there)
	w.charge(2, there)
	w.pass(w.Lag)
	require.Equal(w, chargeEvents(1), events(w.all(w.home, time.Time{}, time.Time{}, 2)))
	require.Equal(w, chargeEvents(1, 2), events(w.all(there, time.Time{}, time.Time{}, 2)), "from another region, too")
	require.Empty(w, w.all(w.Regions[2], time.Time{}, time.Time{}, 2))
	_, err := w.Audit(w.home).AuditPage(w.ctx, "nowhere", time.Time{}, time.Time{}, audit.Position{}, 1)
	require.ErrorIs(w, err, claim.ErrHomeUnreachable)
}

func objects(w *world) {
	first := w.charge(1, w.home)
	w.pass(w.Lag)
	for _, e := range w.all(w.home, time.Time{}, time.Time{}, 10) {
		require.Equal(w, first.Minted.ID, e.Object)
		require.Equal(w, "psp_order-0001", e.ProviderRef)
	}
	if w.Advance == nil {
		return // the key is free again in two days
	}
	w.pass(w.Policy.ReplayFor + w.Policy.TombstoneFor)
	a := claimtest.NewArrival(key(1), w.home, "1", "node-1", "ch_again")
	got, err := w.Store(w.home).Begin(w.ctx, a)
	require.NoError(w, err)
	require.Equal(w, claim.Won, got.Decision)
	all := w.all(w.home, time.Time{}, time.Time{}, 10)
	require.Len(w, all, 4)
	for _, e := range all {
		want := ""
		if e.Event == claim.EventReplaced {
			want = "ch_again"
		}
		require.Equal(w, want, e.Object, "of the life that it is of, or none")
	}
}

// gone advances until the present claims can be swept.
func (w *world) gone() {
	w.pass(max(w.Policy.PinLife(), audit.MinKeepRows) + time.Hour)
	w.Sweep(w)
}

func sweptMeanwhile(w *world) {
	if w.Sweep == nil {
		w.Skip("the database deletes by itself")
	}
	w.charge(1, w.home)
	w.charge(2, w.home)
	page, err := w.Audit(w.home).AuditPage(w.ctx, w.home, time.Time{}, time.Time{}, audit.Position{}, 2)
	require.NoError(w, err)
	require.True(w, page.More)
	w.gone()
	_, _, found, err := w.Store(w.home).Get(w.ctx, key(1), w.home)
	require.NoError(w, err)
	require.False(w, found)
	rest, err := w.Audit(w.home).AuditPage(w.ctx, w.home, time.Time{}, time.Time{}, page.Next, 100)
	require.NoError(w, err)
	require.Equal(w, chargeEvents(1, 2), events(append(page.Entries, rest.Entries...)))
}

func positions(all []audit.Entry) (places []audit.Position) {
	for i := range all {
		places = append(places, all[i].Position())
	}
	return places
}

func forgotten(w *world) {
	w.charge(1, w.home)
	w.charge(2, w.home)
	w.pass(w.Lag)
	all := w.all(w.home, time.Time{}, time.Time{}, 10)
	n, err := w.Audit(w.home).ForgetAudit(w.ctx, w.home, positions(all))
	require.NoError(w, err)
	require.Zero(w, n, "their claims are there")
	require.Len(w, w.all(w.home, time.Time{}, time.Time{}, 10), 6)
	if w.Sweep == nil || w.Advance == nil {
		return
	}
	w.pass(w.Policy.PinLife() + time.Hour)
	w.Sweep(w)
	n, err = w.Audit(w.home).ForgetAudit(w.ctx, w.home, positions(all))
	require.NoError(w, err)
	require.Zero(w, n, "they are not three days old")
	w.gone()
	w.begin(key(2), w.home)
	n, err = w.Audit(w.home).ForgetAudit(w.ctx, w.home, positions(all))
	require.NoError(w, err)
	require.Equal(w, 3, n, "the key of the others is in use again")
	remaining := w.all(w.home, time.Time{}, time.Time{}, 10)
	require.Len(w, remaining, 4)
	for _, e := range remaining {
		require.Equal(w, key(2).Value, e.Key)
	}
	n, err = w.Audit(w.home).ForgetAudit(w.ctx, w.home, positions(all))
	require.NoError(w, err)
	require.Zero(w, n)
}

func chains(w *world) {
	s := w.Audit(w.home)
	_, now, found, err := s.AuditChain(w.ctx, w.home)
	require.NoError(w, err)
	require.False(w, found)
	require.False(w, now.IsZero())
	moved, err := s.AdvanceAudit(w.ctx, w.home, 1, audit.Chain{From: now})
	require.NoError(w, err)
	require.False(w, moved, "there is none")
	from := now.Truncate(time.Hour)
	moved, err = s.AdvanceAudit(w.ctx, w.home, 0, audit.Chain{From: from})
	require.NoError(w, err)
	require.True(w, moved)
	moved, err = s.AdvanceAudit(w.ctx, w.home, 0, audit.Chain{From: from})
	require.NoError(w, err)
	require.False(w, moved)
	want := audit.Chain{
		Number: 7, Digest: "abc", From: from, To: from.Add(time.Hour), Part: 2, SweptUntil: from.Add(-time.Hour),
		After: audit.Position{Tenant: "acme", Key: "k", At: from, ID: "0000000000000001"},
	}
	moved, err = w.Audit(w.Regions[1]).AdvanceAudit(w.ctx, w.home, 1, want)
	require.NoError(w, err)
	require.True(w, moved)
	got, _, found, err := s.AuditChain(w.ctx, w.home)
	require.NoError(w, err)
	require.True(w, found)
	want.Version = 2
	require.Equal(w, want, got)
	_, _, found, err = s.AuditChain(w.ctx, w.Regions[1])
	require.NoError(w, err)
	require.False(w, found, "another region's is another chain")

	// Of many concurrent calls one moves it.
	const rivals = 8
	won := make(chan bool, rivals)
	for range rivals {
		go func() {
			next := want
			next.Number = 8
			moved, err := s.AdvanceAudit(w.ctx, w.home, 2, next)
			won <- err == nil && moved
		}()
	}
	var all []bool
	for range rivals {
		all = append(all, <-won)
	}
	all = slices.DeleteFunc(all, func(won bool) bool { return !won })
	require.Len(w, all, 1)
}
