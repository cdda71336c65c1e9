package region

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sight is what gossip sees.
type sight map[string]time.Time

func (s sight) seen(region string) time.Time { return s[region] }

func newOutages(t *testing.T, s sight) *Outages {
	t.Helper()
	return NewOutages(OutagesConfig{Self: us, Topology: threeRegions(t), Seen: s.seen})
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

func TestARegionMarkedDownIsLostAtOnce(t *testing.T) {
	now := time.Now()
	o := newOutages(t, sight{eu: now, as: now})
	regions := o.c.Topology.Regions()
	for i := range regions {
		if regions[i].Name == eu {
			regions[i].Status = Down
		}
	}
	if _, err := o.c.Topology.Update(regions); err != nil {
		t.Fatal(err)
	}
	wantLost(t, o, eu)
}

// A way that is cut for forwards alone is no less cut, and its healing is
// noticed though nobody forwards any more.
func TestARegionThatGossipSeesAndNobodyReaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sight{}
		var up atomic.Bool
		o := newOutages(t, s)
		ping := func(_ context.Context, region string) error {
			if region != eu {
				t.Errorf("%s was asked", region)
			}
			if !up.Load() {
				return errors.New("refused")
			}
			return nil
		}
		alive := func() { s[eu], s[as] = time.Now(), time.Now() }
		alive()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go o.Run(ctx, ping)

		o.Heard(eu, false)
		time.Sleep(DefaultGrace / 2)
		o.Heard(eu, true) // one answer is enough
		o.Heard(eu, false)
		time.Sleep(DefaultGrace / 2)
		alive()
		wantLost(t, o)
		o.Heard(eu, false) // does not begin anew
		time.Sleep(DefaultGrace / 2)
		alive()
		wantLost(t, o, eu)
		up.Store(true)
		time.Sleep(2 * probeEvery)
		alive()
		wantLost(t, o)
	})
}

// What the peers tell, and how they ask for a sign of life.
func TestPeersTellOfAnswersAndSilence(t *testing.T) {
	var heard []bool
	up, down := startNode(t, "up", failing(errors.New("anything"))), deadNode(t, "down")
	ask := func(nodes ...Node) (answered []bool, ping error) {
		t.Helper()
		heard = nil
		p := peersOf(t, func(c *PeersConfig) {
			c.Heard = func(region string, answered bool) {
				if region != eu {
					t.Errorf("told of %s", region)
				}
				heard = append(heard, answered)
			}
		}, nodes...)
		_, err := p.Execute(t.Context(), eu, requestFor(Node{}, Node{}), 1, us)
		if err == nil {
			t.Error("nobody can have run this")
		}
		ping = p.Ping(t.Context(), eu)
		return heard, ping
	}
	if got, err := ask(up); !slices.Equal(got, []bool{true}) || err != nil {
		t.Errorf("an error is an answer: told %v, ping %v", got, err)
	}
	if got, err := ask(down); !slices.Equal(got, []bool{false}) || !errors.Is(err, ErrNoAnswer) {
		t.Errorf("silence: told %v, ping %v", got, err)
	}
	if got, err := ask(down, up); !slices.Equal(got, []bool{true}) || err != nil {
		t.Errorf("one of two answers: told %v, ping %v", got, err)
	}
	if got, err := ask(); got != nil || !errors.Is(err, ErrNoNode) {
		t.Errorf("gossip says it already: told %v, ping %v", got, err)
	}
}
