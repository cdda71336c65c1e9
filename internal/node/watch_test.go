package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/region"
)

const here = "us-east1"

// deployed is the deployment of nodes that a test assembles by itself.
var deployed = uuid.New()

// newWatchers starts nodes of one region that see each other by gossip and watch the rows.
func newWatchers(t *testing.T, nodes int, every time.Duration, restores claim.Restores, table claim.Regions) []*Node {
	t.Helper()
	var all []*Node
	var seeds []string
	for i := range nodes {
		n := &Node{log: slog.New(slog.DiscardHandler), announced: announced{changing: semaphore.NewWeighted(1)}}
		n.c.Name, n.c.Region, n.c.TopologyEvery = fmt.Sprint("n", i), here, every
		var err error
		n.c.Topology, err = region.NewTopology([]region.Region{{Name: here, Code: 1}})
		require.NoError(t, err)
		n.follower = newFollower(table, n.c.Topology, here, time.Now, n.log)
		require.NoError(t, n.follower.read(t.Context()))
		n.guard, err = claim.NewGuard(t.Context(), restores)
		require.NoError(t, err)
		n.membership, err = region.NewMembership(region.MembershipConfig{
			Deployment: deployed, Node: n.c.Name, Region: here, RPCAddr: fmt.Sprint("127.0.0.1:", 9000+i), BindAddr: "127.0.0.1", Seeds: seeds, LocalTimings: true,
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.membership.Close()) })
		seeds = []string{n.membership.GossipAddr()}
		require.NoError(t, n.running.Start(t.Context(), n.background.start, n.watchRows))
		t.Cleanup(func() { require.NoError(t, n.running.Stop(context.WithoutCancel(t.Context()))) })
		all = append(all, n)
	}
	for _, n := range all {
		require.Eventually(t, func() bool { return len(n.membership.Members()) == nodes }, time.Minute, time.Millisecond)
	}
	return all
}

// sharedTable is a table of regions that several nodes read.
type sharedTable struct {
	mu      sync.Mutex
	regions []region.Region
	epoch   uint64
}

func (s *sharedTable) set(epoch uint64, regions ...region.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.regions, s.epoch = regions, epoch
}

func (s *sharedTable) Regions(context.Context) ([]region.Region, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.regions, s.epoch, nil
}

func (s *sharedTable) SetRegionStatus(context.Context, string, region.Status) (uint64, error) {
	return 0, errors.ErrUnsupported
}

// A change that one node reads reaches all of them without a read of their own rounds: of
// the restores, and of the regions.
func TestWhatOneNodeReadsAllRead(t *testing.T) {
	rows := &laterRestore{}
	table := &sharedTable{}
	table.set(1, region.Region{Name: here, Code: 1})
	all := newWatchers(t, 4, time.Hour, rows, table)
	reaches := func(what string, holds func(n *Node) bool) {
		t.Helper()
		for _, n := range all {
			require.Eventually(t, func() bool { return holds(n) }, time.Minute, time.Millisecond, what)
		}
	}
	now := time.Now()
	row := func(version uint64, why string) claim.Restore {
		r := claim.NewRestore(claim.Restore{}, now.Add(-time.Hour), now, now, nil, "ops", why)
		r.Version = version
		return r
	}
	reads := func(n *Node, r claim.Restore) {
		t.Helper()
		rows.row.Store(&r)
		require.NoError(t, n.guard.Read(t.Context()))
		n.announce(t.Context())
	}
	r := row(1, "a lost disk")
	reads(all[2], r)
	reaches("it is begun", func(n *Node) bool { return n.guard.Standing() != nil })

	r.Version, r.Phase = 2, claim.RestoreOver
	reads(all[0], r)
	reaches("it is over", func(n *Node) bool { return n.guard.Standing() == nil })

	// The row of another backup, with a version that was counted from an older one.
	reads(all[3], row(2, "another disk"))
	reaches("the next one", func(n *Node) bool { return n.guard.Standing() != nil })

	table.set(2, region.Region{Name: here, Code: 1}, region.Region{Name: "europe-west1", Code: 2})
	require.NoError(t, all[1].follower.read(t.Context()))
	all[1].announce(t.Context())
	reaches("a region", func(n *Node) bool { return n.c.Topology.Epoch() == 2 })
}

// A disagreement costs a read, and not one for each message; one that fails is repeated.
func TestHearsayCostsOneRead(t *testing.T) {
	version, reads := uint64(1), 0
	var broken error
	w := &watch{reading: semaphore.NewWeighted(1),
		read:    func(context.Context) error { reads++; return broken },
		current: func() region.Versions { return region.Versions{Restore: version} },
	}
	says := func(name string, mark uint64) region.Node {
		return region.Node{Name: name, Versions: region.Versions{Restore: mark}}
	}
	self := says("self", 9)
	self.Self = true
	for _, step := range []struct {
		what  string
		nodes []region.Node
		reads int
	}{
		{"its own announcement", []region.Node{self}, 0},
		{"a node that has read nothing", []region.Node{self, says("a", 0)}, 0},
		{"agreement", []region.Node{self, says("a", 1), says("b", 1)}, 0},
		{"another row", []region.Node{self, says("a", 2), says("b", 1)}, 1},
		{"nothing new", []region.Node{self, says("a", 2), says("b", 1)}, 0},
		{"a second one agrees with the first", []region.Node{self, says("a", 2), says("b", 2)}, 1},
		{"nothing new", []region.Node{says("b", 2), says("a", 2)}, 0},
	} {
		reads = 0
		w.hear(t.Context(), step.nodes)
		require.Equal(t, step.reads, reads, step.what)
	}
	broken = errors.New("gone")
	for range 3 {
		reads = 0
		w.hear(t.Context(), []region.Node{says("a", 3)})
		require.Equal(t, 1, reads)
	}
	broken = nil
	w.hear(t.Context(), []region.Node{says("a", 3)})
	reads = 0
	w.hear(t.Context(), []region.Node{says("a", 3)})
	require.Zero(t, reads)
}

// Nothing depends on gossip for ever: whatever place a node believes that it has, it acts.
func TestEveryPlaceActs(t *testing.T) {
	for place, within := range map[int][2]int{0: {1, 1}, 1: {12, 12}, 2: {60, 12}, 99: {60, 12}} {
		for i, rounds := range []func(int) int{outbox.Rounds, watchRounds} {
			now := roundsOf(func(string) int { return place }, rounds)
			acts := 0
			for range 10 * within[i] {
				if now(here) {
					acts++
				}
			}
			require.Equal(t, 10, acts, "place %d", place)
		}
	}
	// Who becomes the first acts at once.
	place := 5
	now := roundsOf(func(string) int { return place }, outbox.Rounds)
	require.False(t, now(here))
	place = 0
	require.True(t, now(here))
}
