package simulate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/e2e/goods"
	"github.com/homeward-io/homeward/e2e/history"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/psp/stripe"
	"github.com/homeward-io/homeward/payment/recon"
	"github.com/homeward-io/homeward/payment/verify"
)

var (
	hours = flag.Float64("simulate.hours", 0, "TestSimulate begins runs for so many hours of this machine; 0: it makes a few short ones")
	seed  = flag.Uint64("simulate.seed", 0, "the seed of TestSimulate's first run, the next ones follow; 0: any, or the fixed ones")
	fewer = flag.Bool("simulate.fewer", false, "after a failure TestSimulate looks for the faults that are enough for it, a run for each")
	steps = flag.Int("simulate.steps", 6, "how many steps a run of TestSimulate has")
)

// TestSimulate runs clusters of two nodes in each of three regions, on a store, a network, a provider
// and a clock of their own, in virtual time, and does to them what the seed says: see plan. At the end
// all that was answered is read again in every region, and what the merchants read is judged against
// what the provider moved, as that of the nemesis is. Then days pass, and each answer has to end.
func TestSimulate(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // fewer orders that the seed does not decide
	first, runs, steps := cmp.Or(*seed, 1), 3, *steps
	switch {
	case *seed != 0:
		runs = 1
	case testing.Short():
		runs, steps = 1, min(steps, 2)
	}
	if *hours > 0 {
		first, runs = cmp.Or(*seed, rand.Uint64()>>40), 1<<40
	}
	ofTheProcess(t)
	began, sum := time.Now(), newSummary()
	for n := range runs {
		if *hours > 0 && time.Since(began) > time.Duration(*hours*float64(time.Hour)) {
			break
		}
		seed := first + uint64(n)
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { sum.run(t, seed, plan(seed, steps)) }) {
			break
		}
	}
	t.Log(sum.report())
}

// summary is that of all runs.
type summary struct {
	runs, stripe, requests, keys, movements int // stripe: runs whose provider has that API
	blind, two                              int // runs of a blind provider, and of two providers
	gateways, open                          int // runs of gateways, and keys there, or of a blind provider, whose outcome never became known
	disputes, reversals                     int
	api                                     goods.Stats
	virtual                                 time.Duration
	faults                                  map[kind]int
	coverage                                *coverage
}

func newSummary() *summary {
	return &summary{faults: map[kind]int{}, coverage: &coverage{taken: map[string]int{}}}
}

func (s *summary) report() string {
	var faults, never []string
	for _, k := range allKinds() {
		faults = append(faults, fmt.Sprintf("%s %d", k, s.faults[k]))
	}
	for _, e := range edges {
		if s.coverage.taken[e] == 0 {
			never = append(never, e)
		}
	}
	var taken []string
	for _, e := range slices.Sorted(maps.Keys(s.coverage.taken)) {
		taken = append(taken, fmt.Sprintf("  %s %d", e, s.coverage.taken[e]))
	}
	return fmt.Sprintf("%d runs, %d with Stripe's API, %d with a blind provider, %d with two providers, %d of gateways, %.2f hours of virtual time of a cluster under load; %d requests under %d keys, %d movements of money, %d disputes, %d reversals\n"+
		"behind gateways: %+v; there and with blind providers %d keys were left open\nfaults: %s\nsteps of the store:\n%s\nnever taken: %s",
		s.runs, s.stripe, s.blind, s.two, s.gateways, s.virtual.Hours(), s.requests, s.keys, s.movements, s.disputes, s.reversals, s.api, s.open, strings.Join(faults, ", "), strings.Join(taken, "\n"), strings.Join(never, ", "))
}

// play makes one run.
func (s *summary) play(t *testing.T, seed uint64, plan [][]fault, v *verdict) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, plan, s.coverage)
		t.Cleanup(func() { // also if it cannot go on
			v.history, v.log = &w.history, bytes.Clone(w.log.Bytes())
			s.virtual += w.busy
			w.end()
		})
		w.play(plan, v)
	})
}

// without leaves out of a plan what it does not need in order to fail, one fault after the other.
func (s *summary) without(t *testing.T, seed uint64, plan [][]fault) [][]fault {
	for i := range plan {
		for j := range slices.Backward(plan[i]) {
			less, v := slices.Clone(plan), verdict{}
			less[i] = slices.Delete(slices.Clone(plan[i]), j, j+1)
			if s.play(t, seed, less, &v); len(v.Breaks) > 0 {
				plan = less
			}
		}
	}
	return plan
}

// run makes one run, and reports what it broke.
func (s *summary) run(t *testing.T, seed uint64, plan [][]fault) {
	var v verdict
	defer func() {
		if !t.Failed() {
			return
		}
		dir := filepath.Join("..", "..", "bin", "nemesis", fmt.Sprintf("simulated-%d", seed))
		if err := v.write(dir); err != nil {
			t.Error(err)
		}
		if *fewer && len(v.Breaks) > 0 {
			plan = s.without(t, seed, plan)
			t.Log("these faults are enough:")
		}
		for i, step := range plan {
			for _, f := range step {
				t.Logf("step %d: %v", i+1, f)
			}
		}
		t.Logf("history, verdict and log are in %s; to repeat: make nemesis STORE=simulated SEED=%d", strings.TrimPrefix(dir, "../../"), seed)
	}()
	s.play(t, seed, plan, &v)
	s.runs++
	switch {
	case ofStripe(seed):
		s.stripe++
	case ofBlind(seed):
		s.blind++
		s.open += v.Keys.Open
	case ofTwo(seed):
		s.two++
	case ofGateway(seed):
		s.gateways++
		s.open += v.Keys.Open
		s.api.Add(v.API)
	}
	s.disputes, s.reversals = s.disputes+v.Disputes, s.reversals+v.Reversals
	s.requests, s.keys, s.movements = s.requests+v.Keys.Requests, s.keys+v.Keys.Keys, s.movements+v.Keys.Movements
	for _, step := range plan {
		for _, f := range step {
			s.faults[f.kind]++
		}
	}
	for _, b := range v.Breaks {
		t.Errorf("seed %d: %s", seed, b)
	}
	// Who has the files alone comes to the same verdict.
	dir := t.TempDir()
	require.NoError(t, v.write(dir))
	keys, _, err := history.JudgeFiles(dir)
	require.NoError(t, err)
	require.Equal(t, v.Keys, keys)
}

// verdict is what a run found.
type verdict struct {
	Breaks     []string
	Keys       history.Verdict
	Providers  []simulator.Stats
	API        goods.Stats
	Disputes   int
	Reversals  int
	Books      verify.Report
	Statements []*recon.Report
	Mismatches []recon.Mismatch

	history *history.History
	effects []any // as the provider, or the API behind a gateway, has them
	log     []byte
}

func (v *verdict) breaks(format string, args ...any) {
	v.Breaks = append(v.Breaks, fmt.Sprintf(format, args...))
}

func (v *verdict) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if v.history == nil {
		return nil // it did not begin
	}
	var lines, effects bytes.Buffer
	if err := v.history.Write(&lines); err != nil {
		return err
	}
	for _, e := range v.effects {
		if err := json.NewEncoder(&effects).Encode(e); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{history.File: lines.Bytes(), history.Movements: effects.Bytes(), "verdict.json": text, "nodes.log": v.log} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// play sends load while the plan runs, and judges.
func (w *world) play(plan [][]fault, v *verdict) {
	began := time.Now()
	w.ready()
	ctx, giveUp := context.WithCancel(w.ctx)
	defer giveUp()
	l := &load{w: w, ctx: ctx, history: &w.history}
	var merchants sync.WaitGroup
	for n := range map[bool]int{false: merchantsAtOnce, true: blindMerchants}[w.blind] {
		merchants.Go(func() { l.merchant(n) })
	}
	w.welcome = func() {
		for n := range merchantsAtOnce {
			merchants.Go(func() { l.merchant(blindMerchants + n) })
		}
	}
	over := make(chan struct{})
	defer close(over)
	go w.sweep(over)
	for _, s := range plan {
		w.step(s)
	}
	l.over.Store(true)
	longest := 30 * time.Minute // long past the longest back-off
	switch {
	case w.stripe: // a payment is not there once it was not found three times
		longest += 3 * stripe.SettleWindow
	case w.api != nil: // a look-up says for sure that nothing was done, and the next try is in doubt as well, again and again
		longest += 10 * sureAfter
	}
	longest += w.behind() // a row that was due before the clock went back
	late := time.AfterFunc(longest, giveUp)
	merchants.Wait()
	late.Stop()
	w.transit.Wait()
	if w.api != nil {
		w.api.Settled()
	}
	w.busy = time.Since(began)
	for i := 0; i < 60 && len(w.unheard())+len(w.unbooked()) > 0; i++ {
		time.Sleep(time.Minute) // an event is retried for so long, and a notice
	}
	if ctx.Err() == nil {
		for _, wrong := range l.again(func(r *answer.Answer) bool { return r.Final() }) {
			v.breaks("not read again: %s", wrong)
		}
	}
	w.judgement(v)
	for _, what := range w.certificateBreaks() {
		v.breaks("%s", what)
	}
	if ctx.Err() == nil && len(v.Breaks) == 0 {
		w.days(l, v)
	}
}

// judgement judges what merchants read, what the provider moved, and the books.
func (w *world) judgement(v *verdict) {
	v.effects, v.Keys = w.effects(), history.Judge(&w.history, w.withDisputes(w.moved()))
	for _, m := range w.withDisputes(nil) {
		v.effects = append(v.effects, m)
	}
	told := map[string]bool{}
	for _, b := range v.Keys.Breaks {
		v.breaks("key %s: %s", b.Key, b.What)
		if !told[b.Key] && b.Key != "" {
			var lines bytes.Buffer
			w.must(w.history.Of(b.Key).Write(&lines))
			v.breaks("its history, and the faults that it saw:\n%s", &lines)
		}
		told[b.Key] = true
	}
	if v.Keys.Completed+v.Keys.Open == 0 { // where few keys are used, an API may leave all in doubt
		v.breaks("no key was answered for good")
	}
	if w.api != nil {
		v.API = w.api.Stats()
		for _, what := range w.api.Breaks(&w.history) {
			v.breaks("the API: %s", what)
		}
		return
	}
	for _, j := range w.judges {
		stats := j.Stats()
		v.Providers = append(v.Providers, stats)
		if stats.DuplicateEffects > 0 || stats.KeyReuses > 0 {
			v.breaks("the provider %s counts %d duplicates and %d keys with other parameters", j.name, stats.DuplicateEffects, stats.KeyReuses)
		}
	}
	for _, what := range w.unheard() {
		v.breaks("no event was delivered: %s", what)
	}
	if v.Keys.Ghosts > 0 { // its notice took a few minutes at most
		v.breaks("%d charges moved, and their notices did not settle them before they were given up", v.Keys.Ghosts)
	}
	w.books(v)
	v.Disputes, v.Reversals = len(w.disputes), len(w.reversals)
	for _, what := range append(w.unbooked(), w.disputeBreaks()...) {
		v.breaks("%s", what)
	}
}

// unheard are the movements, the steps of disputes, and the reversals, of which no event was delivered.
func (w *world) unheard() (all []string) {
	if w.api != nil { // of which there are none
		return nil
	}
	moved := w.moved()
	reversals := slices.DeleteFunc(slices.Clone(w.reversals), func(r reversal) bool { return !w.counts(&r) })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range moved {
		what, canceled := e.Kind+".succeeded "+e.Reference, e.Kind+".canceled "+e.Reference
		if w.events[what]+w.events[canceled] == 0 { // a charge whose key was given up was made for nobody
			all = append(all, what)
		}
	}
	for _, d := range w.disputes {
		for _, what := range d.events() {
			if !d.ghost && w.events[what] == 0 {
				all = append(all, what)
			}
		}
	}
	for _, r := range reversals {
		if w.events[r.event()] == 0 {
			all = append(all, r.event())
		}
	}
	return all
}

// books compares the books with themselves, with the claims, and with the provider's statement.
func (w *world) books(v *verdict) {
	homes := w.regions()
	rows, err := deployment.Embedded(w.db).Region(homes[0])
	w.must(err)
	v.Books, err = verify.Books(w.ctx, rows, homes)
	w.must(err)
	if !v.Books.OK() {
		v.breaks("the books do not agree: %v", v.Books.Failures)
	}
	for _, j := range w.judges {
		w.compare(v, rows, j, homes)
	}
}

// compare compares the statement of a provider with the books and the claims.
func (w *world) compare(v *verdict, rows deployment.Store, j *judge, homes []string) {
	var statement bytes.Buffer
	w.must(j.WriteStatement(&statement, simulator.Statement{Format: "csv", Stripe: w.stripe}))
	var mismatches []recon.Mismatch
	r, err := recon.Run(w.ctx, recon.Config{
		Books: rows, Claims: rows, Provider: j.name, Regions: homes, Home: func(code claim.RegionCode) (string, bool) {
			return homes[max(1, min(int(code), len(homes)))-1], int(code) <= len(homes)
		},
		Found: func(_ context.Context, m recon.Mismatch) error { mismatches = append(mismatches, m); return nil },
	}, &statement, recon.CSV)
	w.must(err)
	v.Statements, v.Mismatches = append(v.Statements, r), append(v.Mismatches, mismatches...)
	if len(mismatches) > 0 || r.Agree != r.Lines {
		v.breaks("the statement of %s does not agree: %d of %d lines, %+v", j.name, r.Agree, r.Lines, mismatches)
	}
	charges := map[string]string{}
	for _, l := range w.statement(j) {
		if l.Kind == psp.KindCharge {
			charges[l.ID] = l.Reference
		}
		if l.Kind != psp.KindRefund {
			continue
		}
		_, code, _ := claim.ReadObjectID(l.Reference)
		t, booked, err := rows.Transaction(w.ctx, homes[max(1, int(code))-1], l.Reference)
		w.must(err)
		if booked && t.Reverses != charges[l.Of] {
			v.breaks("%s has refunded %s, and the books say that %s refunds %s", j.name, charges[l.Of], l.Reference, t.Reverses)
		}
	}
}

// days pass. Each key is a tombstone at first, and then free for another request.
func (w *world) days(l *load, v *verdict) {
	p, moved := w.policy(), len(w.moved())
	if w.api != nil || w.blind {
		w.setFaults(simulator.Faults{}) // or it leaves some requests in doubt
	}
	if w.bucket != nil {
		w.bucket.full.Store(true) // or it gets a segment for each few seconds of these days
	}
	l.history = &history.History{}
	w.pass(p.ReplayFor + time.Minute + w.behind()) // also of a key that was used before the clock went back
	time.Sleep(time.Minute)
	for _, wrong := range l.again(func(r *answer.Answer) bool { return r.Status == http.StatusGone }) {
		v.breaks("past its window: %s", wrong)
	}
	if now := len(w.moved()); now != moved {
		v.breaks("%d movements by replays past their windows", now-moved)
	}
	w.pass(p.TombstoneFor + p.PinGrace)
	if w.bucket != nil {
		for _, key := range w.endRestore() {
			l.done = slices.DeleteFunc(l.done, func(q request) bool { return claim.Key{Tenant: q.tenant, Value: q.key} == key })
		}
	}
	time.Sleep(5 * time.Minute) // so that some are swept, and some are not
	l.done = slices.DeleteFunc(l.done, func(q request) bool { return q.path == history.CancelPath })
	for i := range l.done {
		next := charge(l.done[i].key, 1+i, "pm_card_visa")
		if next.tenant = tenants[i%len(tenants)]; w.api != nil {
			next.path = l.done[i].path
		}
		l.done[i] = next
	}
	for _, wrong := range l.again(func(r *answer.Answer) bool { return r.Status == http.StatusCreated }) {
		v.breaks("its key is free: %s", wrong)
	}
	if now := len(w.moved()); now != moved+len(l.done) {
		v.breaks("%d movements under %d keys that were free", now-moved, len(l.done))
	}
}
