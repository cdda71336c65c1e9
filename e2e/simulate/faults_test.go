package simulate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// step does what a step's faults say, at their times, and waits until the cluster is healthy.
func (w *world) step(faults []fault) {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for _, f := range faults {
		events = append(events, event{f.begin, func() {
			began := time.Now()
			w.logger("nemesis").Warn("begins", "fault", f.String())
			end := w.begin(f)
			events = append(events, event{f.end, func() {
				end()
				w.logger("nemesis").Warn("ended", "fault", f.String())
				w.history.AddFault(f.String(), began)
			}})
		}})
	}
	for began := time.Now(); len(events) > 0; {
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		e := events[0]
		events = events[1:]
		time.Sleep(time.Until(began.Add(e.at)))
		e.do()
	}
	w.ready()
}

func among(names []string) func(*host) bool {
	return func(h *host) bool { return slices.Contains(names, h.name) }
}

// aNode reports whether a host is a node's.
func aNode(h *host) bool { return strings.HasPrefix(h.ip, "10.0.") }

// others are the nodes that are not among them.
func others(names []string) func(*host) bool {
	return func(h *host) bool { return aNode(h) && !slices.Contains(names, h.name) }
}

func (w *world) of(names []string) (all []*machine) {
	for _, m := range w.nodes() {
		if slices.Contains(names, m.name) || slices.Contains(names, m.region) {
			all = append(all, m)
		}
	}
	return all
}

// begin begins a fault, and returns how it ends.
func (w *world) begin(f fault) (end func()) {
	share := float64(f.amount) / 100
	startAgain := func() {
		for _, m := range w.of(f.at) {
			m.start()
		}
	}
	both := func(a, b *rule) func() {
		x, y := w.network.begin(a), w.network.begin(b)
		return func() { x(); y() }
	}
	switch f.kind {
	case kill, lose:
		for _, m := range w.of(f.at) {
			m.kill()
		}
		return startAgain
	case stop:
		for _, m := range w.of(f.at) {
			m.stop()
		}
		return startAgain
	case freeze:
		w.of(f.at)[0].freeze(true)
		return func() { w.of(f.at)[0].freeze(false) }
	case killAt:
		return w.lieInWait(f, (*machine).kill, (*machine).start)
	case freezeAt:
		return w.lieInWait(f, func(m *machine) { m.freeze(true) }, func(m *machine) { m.freeze(false) })
	case power:
		w.powerCut(f.amount, f.end-f.begin)
		return func() {}
	case crash, full:
		how := w.crashStore
		if f.kind == full {
			how = w.fillDisk
		}
		back := make(chan struct{})
		w.ended.Go(func() { // which ends before the run does, also if that fails
			defer close(back)
			how(f.amount, f.end-f.begin)
		})
		return func() { <-back }
	case skew:
		m := w.of(f.at)[0]
		set := func(by time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			m.skew = by
		}
		set(f.by)
		return func() { set(0) }
	case restored:
		return w.backUp(f.amount)
	case added:
		return w.addRegion((f.end - f.begin) / 2)
	case renewed:
		return meanwhile(w.renewCertificates)
	case rotate:
		return meanwhile(w.newKeys)
	case part:
		return both(&rule{from: among(f.at), to: others(f.at), drop: true}, &rule{from: others(f.at), to: among(f.at), drop: true})
	case oneway:
		return w.network.begin(&rule{from: among(f.from), to: among(f.at), drop: true})
	case away:
		return w.network.begin(&rule{from: among(f.at), to: among([]string{provider}), drop: true})
	case closed:
		at := w.judges[f.amount]
		set := func(is bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, name := range f.at {
				at.closed[name] = is
			}
		}
		set(true)
		return func() { set(false) }
	case slowWay:
		return w.network.begin(&rule{from: aNode, to: among(f.at), slow: f.by})
	case gossiping:
		return w.network.begin(&rule{from: aNode, to: aNode, lose: share, twice: 0.3, late: f.by})
	case slowDisk:
		return w.trouble(&trouble{region: f.at[0], slow: f.by})
	case lostStep:
		return w.trouble(&trouble{region: f.at[0], lost: share})
	case lateStep:
		return w.trouble(&trouble{region: f.at[0], late: share})
	case lostReply:
		return w.trouble(&trouble{region: f.at[0], unreplied: share})
	case storeCut:
		a, b := f.at[0], f.from[0]
		[]func(a, b string){w.distance.Cut, w.distance.CutOneWay, w.distance.Blackhole}[f.amount](a, b)
		return func() { w.distance.Heal(a, b) }
	case clock:
		w.pass(f.by)
		return func() {}
	case mute, slow, forget:
		bad := w.everyday()
		switch f.kind {
		case slow:
			bad.Jitter = 40 * time.Second
		case mute:
			bad.ErrorBefore, bad.DropReply, bad.ErrorAfter, bad.LateEffect, bad.LateBy = 0.7, 0.5, 1, 0.3, 40*time.Second
		case forget:
			bad.ErrorBefore, bad.DropReply = 0.3, 1
			silent := w.network.begin(&rule{from: among([]string{provider}), to: aNode, drop: true})
			w.setFaults(bad)
			for i := range forgetting {
				jump := time.AfterFunc(time.Duration(i+1)*forgetEvery-time.Minute, func() { w.pass(forgetJump) })
				w.t.Cleanup(func() { jump.Stop() })
			}
			return func() { silent(); w.setFaults(w.everyday()) }
		}
		w.setFaults(bad)
		return func() {
			w.setFaults(w.everyday())
			w.releaseLate()
		}
	case drain:
		_, err := w.db.SetRegionStatus(w.ctx, f.at[0], claim.RegionDraining)
		w.must(err)
		return func() {
			_, err := w.db.SetRegionStatus(w.ctx, f.at[0], claim.RegionActive)
			w.must(err)
		}
	case registrar:
		if err := w.db.MoveRegistrar(w.ctx, f.from[0], f.at[0]); err != nil {
			w.logger("nemesis").Info("the registrar stays", "error", err)
		}
		return func() {}
	}
	w.t.Fatalf("begin does not know %v", f)
	return nil
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// meanwhile runs do beside what else happens. The end waits for it.
func meanwhile(do func()) (end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	return func() { <-done }
}

// addRegion has more merchants come, and all stamp keys of the fourth region. After a while it adds the region's row, as
// homeward migrate up does. The end starts its nodes.
func (w *world) addRegion(after time.Duration) (end func()) {
	know := func(homes []string, joining bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.homes, w.joining = homes, joining
	}
	all := append(slices.Clone(regions), fourth)
	know(all, true)
	w.welcome()
	add := func() error {
		_, err := w.db.SetRegionStatus(w.ctx, fourth, claim.RegionActive)
		know(all, false)
		return err
	}
	row := time.AfterFunc(after, func() { _ = add() })
	w.t.Cleanup(func() { row.Stop() })
	return func() {
		w.must(add())
		for _, m := range w.coming {
			m.start()
			w.mu.Lock()
			w.machines = append(slices.Clone(w.machines), m)
			w.mu.Unlock()
		}
	}
}

// trouble begins one.
func (w *world) trouble(t *trouble) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles[t] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.troubles, t)
	}
}

// pass sets the clocks of store and provider.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	w.ahead += d
	w.mu.Unlock()
	for _, j := range w.judges {
		j.Elapse()
	}
}

// behind is how far the clocks are behind the store's, which never goes back.
func (w *world) behind() time.Duration {
	_, now, err := w.database().Restore(w.ctx) // for the clock
	w.must(err)
	return max(0, now.Sub(w.now()))
}
