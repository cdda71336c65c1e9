package region

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sight is what gossip sees.
type sight map[string]time.Time

func (s sight) seen(region string) time.Time { return s[region] }

var (
	euNode = Node{Name: "e", Region: eu, RPCAddr: "e:1"}
	asNode = Node{Name: "a", Region: as, RPCAddr: "a:1"}
)

func newOutages(t *testing.T, s sight) *Outages {
	t.Helper()
	return NewOutages(OutagesConfig{Self: us, Topology: threeRegions(t), Directory: directory{eu: {euNode}, as: {asNode}}, Seen: s.seen})
}

func wantLost(t *testing.T, o *Outages, want ...string) {
	t.Helper()
	if got := o.All(); !slices.Equal(got, want) {
		t.Errorf("lost: %q, want %q", got, want)
	}
}

func TestARegionIsLostAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sight{eu: time.Now()} // asia was never seen
		o := newOutages(t, s)
		wantLost(t, o)
		time.Sleep(DefaultGrace - time.Nanosecond)
		wantLost(t, o)
		s[eu] = time.Now()
		time.Sleep(time.Nanosecond)
		wantLost(t, o, as)
		s[as] = time.Now() // back without anybody's doing
		wantLost(t, o)
		time.Sleep(DefaultGrace)
		wantLost(t, o, as, eu)
		if o.Lost(us) || o.Lost("mars") {
			t.Error("a node's own region, and one that is none, are never lost")
		}
	})
}

// TestACallThatWouldBeWasted: a region is unreachable before it is lost, from the moment that
// gossip sees none of its nodes, or that each of them was asked in vain, until one answers a ping.
func TestACallThatWouldBeWasted(t *testing.T) {
	now := time.Now()
	own, beside := Node{Name: "u", Region: us, Self: true}, Node{Name: "u2", Region: us}
	nodes := directory{eu: {euNode}, us: {own, beside}}
	o := NewOutages(OutagesConfig{
		Self: us, Topology: threeRegions(t), Directory: nodes, Seen: func(string) time.Time { return now }, Clock: func() time.Time { return now },
	})
	for _, step := range []struct {
		do          func()
		unreachable []string
		circuits    []string // of asia, eu and its own region
	}{
		{func() {}, []string{as}, []string{Open, Closed, Closed}},
		{func() { o.Doubted(euNode, now) }, []string{as}, []string{Open, Closed, Closed}},
		{func() { o.Missed(euNode, now, missedDial) }, []string{as, eu}, []string{Open, HalfOpen, Closed}},
		{func() { o.Answered(euNode) }, []string{as, eu}, []string{Open, HalfOpen, Closed}},
		{func() { o.reached(euNode); nodes[as] = []Node{asNode} }, nil, []string{Closed, Closed, Closed}},
		{func() { nodes[as] = []Node{{Name: "a", Region: as, UnreadySince: now}} }, nil, []string{Open, Closed, Closed}},
		// Of its own region a node asks the others.
		{func() { o.Missed(beside, now, missedDial) }, []string{us}, []string{Open, Closed, Closed}},
		{func() { o.reached(beside); nodes[us][1].UnreadySince = now }, []string{us}, []string{Open, Closed, Closed}},
		{func() { nodes[us] = append(nodes[us], Node{Name: "u3", Region: us}) }, nil, []string{Open, Closed, Closed}},
		{func() { nodes[us] = []Node{own} }, []string{us}, []string{Open, Closed, Closed}},
	} {
		step.do()
		var got, circuits []string
		for _, r := range []string{as, eu, us} {
			if o.Unreachable(r) {
				got = append(got, r)
			}
			circuits = append(circuits, o.Circuit(r))
		}
		if !slices.Equal(circuits, step.circuits) {
			t.Errorf("circuits: %q, want %q", circuits, step.circuits)
		}
		if !slices.Equal(got, step.unreachable) {
			t.Errorf("unreachable: %q, want %q", got, step.unreachable)
		}
		wantLost(t, o)
	}
}

// TestARegionThatCannotReachItsStore is at once one whose rows others serve, and lost after the
// grace; but not to a node that cannot reach its store either.
func TestARegionThatCannotReachItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sight{eu: time.Now().Add(time.Hour), as: time.Now().Add(time.Hour)}
		own, second := Node{Name: "u", Region: us, Self: true}, Node{Name: "e2", Region: eu}
		nodes := directory{us: {own}, eu: {euNode, second}, as: {asNode}}
		o := NewOutages(OutagesConfig{Self: us, Topology: threeRegions(t), Directory: nodes, Seen: s.seen})
		says := func(region string, at ...time.Time) {
			for i := range nodes[region] {
				nodes[region][i].UnreadySince = at[i]
			}
		}
		want := func(unready bool, lost ...string) {
			t.Helper()
			if o.Unready(eu) != unready || o.Unreachable(eu) != (len(lost) > 0) {
				t.Errorf("unready: %v, unreachable: %v", o.Unready(eu), o.Unreachable(eu))
			}
			wantLost(t, o, lost...)
		}
		first := time.Now()
		says(eu, first, time.Time{})
		time.Sleep(DefaultGrace)
		want(false)
		says(eu, first, time.Now())
		want(true)
		time.Sleep(DefaultGrace - 1)
		want(true)
		time.Sleep(1)
		want(true, eu)
		says(us, time.Now())
		want(true)
		says(us, time.Time{})
		want(true, eu)
		says(eu, time.Time{}, time.Time{})
		want(false)
		// Of two nodes one is silent, and one cannot record a charge.
		o.Missed(second, time.Now(), missedDial)
		o.reached(euNode)
		says(eu, time.Now(), time.Time{})
		time.Sleep(DefaultGrace)
		want(false, eu)
	})
}

func TestARegionMarkedDownIsLostAtOnce(t *testing.T) {
	now := time.Now()
	o := newOutages(t, sight{eu: now, as: now})
	regions := o.c.Topology.Regions()
	for i := range regions {
		if regions[i].Name == eu {
			regions[i].Status = Down
		}
	}
	if _, err := o.c.Topology.Update(2, regions); err != nil {
		t.Fatal(err)
	}
	wantLost(t, o, eu)
}

// A way that is cut for forwards alone is no less cut, and its healing is
// noticed though nobody forwards any more.
func TestARegionThatGossipSeesAndNoCallReaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sight{eu: time.Now().Add(time.Hour), as: time.Now().Add(time.Hour)}
		var up atomic.Bool
		o := newOutages(t, s)
		ping := func(_ context.Context, node Node) error {
			if node != euNode {
				t.Errorf("%s got a ping", node.Name)
			}
			if !up.Load() {
				return errors.New("refused")
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go o.Run(ctx, ping)

		o.Missed(euNode, time.Now(), missedCall)
		time.Sleep(DefaultGrace / 2)
		o.reached(euNode) // one answered ping is enough
		o.Missed(euNode, time.Now(), missedCall)
		time.Sleep(DefaultGrace / 2)
		wantLost(t, o)
		o.Missed(euNode, time.Now(), missedCall) // does not begin anew
		time.Sleep(DefaultGrace / 2)
		wantLost(t, o, eu)
		up.Store(true)
		time.Sleep(2 * probeEvery)
		wantLost(t, o)
	})
}

// A call that was abandoned proves nothing: a ping decides, and the silence began with the call.
func TestADoubtIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sight{eu: time.Now().Add(time.Hour), as: time.Now().Add(time.Hour)}
		o := newOutages(t, s)
		answer := errors.New("refused")
		ping := func(context.Context, Node) error { return answer }
		o.Doubted(euNode, time.Now())
		time.Sleep(DefaultGrace)
		wantLost(t, o)
		o.probe(t.Context(), ping)
		wantLost(t, o, eu)
		answer = nil
		o.probe(t.Context(), ping)
		wantLost(t, o)
		o.Doubted(euNode, time.Now())
		o.probe(t.Context(), ping)
		time.Sleep(DefaultGrace)
		wantLost(t, o)
		if len(o.quiet) != 0 {
			t.Errorf("%v is remembered", o.quiet)
		}
	})
}

// A region that is down is silent first, and then out of gossip, which saw it a moment ago: it
// stays lost. One that answered until then is lost after the grace.
func TestARegionThatGossipLosesIsNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sight{eu: time.Now(), as: time.Now().Add(time.Hour)}
		other, seen := Node{Name: "e2", Region: eu, RPCAddr: "e2:1"}, directory{eu: {euNode}, as: {asNode}}
		o := NewOutages(OutagesConfig{Self: us, Topology: threeRegions(t), Directory: seen, Seen: s.seen})
		refused := func(context.Context, Node) error { return errors.New("refused") }
		o.Missed(euNode, time.Now(), missedDial)
		time.Sleep(DefaultGrace)
		s[eu] = time.Now()
		wantLost(t, o, eu)
		seen[eu] = nil
		o.probe(t.Context(), refused)
		wantLost(t, o, eu)

		seen[eu] = []Node{other} // one of another name is back
		o.probe(t.Context(), refused)
		wantLost(t, o)
		o.Answered(other)
		o.Missed(euNode, time.Now().Add(-DefaultGrace), missedCall)
		seen[eu] = nil
		wantLost(t, o)
		time.Sleep(DefaultGrace)
		wantLost(t, o, eu)
	})
}

// An answer to a small call, where large packets are dropped, does not put off the loss of a
// region that gossip does not see.
func TestASmallAnswerEndsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sight{eu: time.Now().Add(time.Hour), as: time.Now().Add(time.Hour)}
		o := NewOutages(OutagesConfig{Self: us, Topology: threeRegions(t), Directory: directory{as: {asNode}}, Seen: s.seen})
		o.Missed(euNode, time.Now(), missedCall)
		time.Sleep(DefaultGrace / 2)
		o.Answered(euNode)
		time.Sleep(DefaultGrace / 2)
		wantLost(t, o, eu)
	})
}

// A call may wait for a slow provider longer than the grace, over a connection that is alive, and
// then break, as at a restart: its region has not been out of reach for so long.
func TestALongCallThatBreaksIsNoLongSilence(t *testing.T) {
	for name, hears := range map[string]func(o *Outages, began time.Time){
		"it broke":        func(o *Outages, began time.Time) { o.Missed(euNode, began, missedCall) },
		"its caller left": func(o *Outages, began time.Time) { o.Doubted(euNode, began) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutages(t, sight{eu: time.Now().Add(time.Hour), as: time.Now().Add(time.Hour)})
				began := time.Now()
				time.Sleep(6 * DefaultGrace)
				o.Answered(euNode) // other calls
				hears(o, began)
				o.probe(t.Context(), func(context.Context, Node) error { return errors.New("refused") })
				wantLost(t, o)
				time.Sleep(DefaultGrace)
				wantLost(t, o, eu)
			})
		})
	}
}

// The log names the node that fell silent and the region that was lost for it, once each,
// with the reason, and their return.
func TestTheLogOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sight{eu: time.Now().Add(time.Hour), as: time.Now().Add(time.Hour)}
		o := newOutages(t, s)
		var said bytes.Buffer
		o.c.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		var up atomic.Bool
		ctx, stop := context.WithCancel(t.Context())
		o.Missed(euNode, time.Now(), missedDial)
		o.Missed(euNode, time.Now(), missedDial)
		go o.Run(ctx, func(context.Context, Node) error {
			if !up.Load() {
				return errors.New("refused")
			}
			return nil
		})
		time.Sleep(3 * DefaultGrace)
		synctest.Wait()
		up.Store(true)
		time.Sleep(3 * probeEvery)
		stop()
		synctest.Wait()
		want := `level=WARN msg="a node does not answer calls, although gossip sees it; it is tried last, and pinged until it answers" peer=europe-west1 of=e addr=e:1 failed=dial
level=WARN msg="a region is lost; this node acts as its deputy" peer=europe-west1 why="none of its nodes answers calls" silent=e
level=INFO msg="a node answers calls again" peer=europe-west1 of=e addr=e:1 after=31s
level=INFO msg="a region is back" peer=europe-west1
`
		if said.String() != want {
			t.Errorf("the log:\n%s\nwant:\n%s", said.String(), want)
		}
	})
}

// What the peers report, and how they ping.
func TestPeersReportAnswersAndSilence(t *testing.T) {
	up, down := startNode(t, "up", failing(errors.New("anything"))), deadNode(t, "down")
	ask := func(nodes ...Node) (o *Outages, pings []error) {
		t.Helper()
		o = newOutages(t, sight{})
		o.c.Directory = directory{eu: nodes}
		p := peersOf(t, func(c *PeersConfig) { c.Outages = o }, nodes...)
		_, err := p.Execute(t.Context(), eu, requestFor(Node{}, Node{}), 1, us)
		if err == nil {
			t.Error("nobody can have run this")
		}
		for _, n := range nodes {
			pings = append(pings, p.Ping(t.Context(), n))
		}
		return o, pings
	}
	silent := func(o *Outages) bool { _, silent := o.silentSince(eu); return silent }
	if o, pings := ask(up); silent(o) || len(o.Silent(eu)) != 0 || pings[0] != nil {
		t.Errorf("an error is an answer: silent %v, pings %v", o.Silent(eu), pings)
	}
	if o, pings := ask(down); !silent(o) || !slices.Equal(o.Silent(eu), []string{"down"}) || !errors.Is(pings[0], ErrNoAnswer) {
		t.Errorf("silence: silent %v, pings %v", o.Silent(eu), pings)
	}
	if o, _ := ask(down, up); silent(o) {
		t.Errorf("one of two answers: silent %v", o.Silent(eu))
	}
	if o, _ := ask(); silent(o) || len(o.quiet) != 0 {
		t.Errorf("gossip shows it already: silent %v", o.quiet)
	}
}
