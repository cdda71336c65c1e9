package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
)

// nemesisFault is one thing done to a cluster, from begin to end after its step began.
type nemesisFault struct {
	kind       nemesisKind
	at         string // a node or a region
	from       string // for dropFrom, the region whose calls are dropped
	begin, end time.Duration

	table string        // of leases and ranges
	shots []nemesisShot // of wire
}

// nemesisShot is a fault for the next requests that execute a statement.
type nemesisShot struct {
	fault     wireproxy.Fault
	statement string
	times     int
}

func (s nemesisShot) String() string {
	return fmt.Sprintf("%s at %s, %d times", s.fault, s.statement, s.times)
}

func (f nemesisFault) String() string {
	switch f.kind {
	case dropFrom:
		return fmt.Sprintf("%s %s %s", f.kind, f.from, f.at)
	case wire:
		return fmt.Sprintf("%s %s %v", f.kind, f.at, f.shots)
	case leases, ranges:
		return fmt.Sprintf("%s of %s %s", f.kind, f.table, f.at)
	default:
		return fmt.Sprintf("%s %s", f.kind, f.at)
	}
}

type nemesisKind string

// What can be done. To add a kind, give it a place here, in nemesisKinds, in draw, and in begin of
// nemesis_test.go, which returns how it ends.
const (
	kill     nemesisKind = "kill"        // SIGKILL to a node, then a start
	stop     nemesisKind = "stop"        // SIGTERM to a node, then a start
	lose     nemesisKind = "lose region" // SIGKILL to all nodes of a region, then starts
	freeze   nemesisKind = "freeze"      // SIGSTOP to a node, then SIGCONT
	drop     nemesisKind = "drop"        // nothing passes a node's RPC port
	dropFrom nemesisKind = "drop from"   // nothing of one region's calls does
	wire     nemesisKind = "wire"        // a statement of a region's nodes, its reply, or its order
	refuse   nemesisKind = "refuse"      // a region's connections to the database are cut, and refused
	path     nemesisKind = "path"        // nothing passes between a region and the database
	killDB   nemesisKind = "kill database"
	freezeDB nemesisKind = "freeze database"
	mute     nemesisKind = "provider mute" // it answers nothing, and moves money for some calls, now or later
	slow     nemesisKind = "provider slow" // its answers take longer than a lease

	// CockroachDB's own.
	leases nemesisKind = "leases" // those of a table's ranges move to a region
	ranges nemesisKind = "ranges" // those of a table and a region split, and then merge

	// Of drills, which no seed draws.
	drain nemesisKind = "drain" // a region takes no new homes, and then does again
)

// nemesisKinds returns the kinds of faults that fit a database. A seed's schedule depends on their order.
func nemesisKinds(database localdb.Kind) []nemesisKind {
	all := []nemesisKind{kill, stop, lose, freeze, drop, dropFrom, wire, refuse, path, killDB, freezeDB, mute, slow}
	if database == localdb.CockroachDB {
		all = append(all, leases, ranges)
	}
	return all
}

// nemesisStatements are what wire hits: all that a request, a worker, or a notice executes. Half of
// the shots hit those that decide.
var nemesisStatements = []string{
	"settle", "settle", "settle", "settle", "settle", "settle", "begin", "begin_here", "begin_again", "begin_again", "defer", "defer", "change", "change", "change",
	"renew", "change", "find", "look", "pin", "pin_write", "pin_read",
	"replica", "object", "reattach", "note", "calls_take", "calls_finish", "calls_retry", "notices_keep", "notices_close", "sql:commit",
}

// nemesisTables names the tables whose leases the nemesis moves and whose ranges it splits. Their keys
// begin with region, tenant and key.
var nemesisTables = []string{"claims", "pins", "audit"}

// nemesisNodes are two in each region.
var nemesisNodes = func() (all []string) {
	for _, r := range regions {
		all = append(all, r+"-1", r+"-2")
	}
	return all
}()

// regionOf is that of a node.
func regionOf(node string) string { return node[:len(node)-2] }

// nemesisPlan is what is done in each step, and follows from the seed alone. Each run has a random
// part of the kinds: what many faults hide, few may show.
func nemesisPlan(seed uint64, database localdb.Kind, steps int, longest time.Duration) [][]nemesisFault {
	rng := rand.New(rand.NewPCG(seed, 0))
	all := nemesisKinds(database)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	some := all[:1+rng.IntN(len(all))]
	plan := make([][]nemesisFault, steps)
	for i := range plan {
		length := longest/4 + rand64(rng, longest*3/4)
		held := map[string]bool{}
		for range 1 + rng.IntN(4) {
			f := draw(rng, some[rng.IntN(len(some))], length)
			if !slices.ContainsFunc(f.holds(), func(what string) bool { return held[what] }) {
				for _, what := range f.holds() {
					held[what] = true
				}
				plan[i] = append(plan[i], f)
			}
		}
		// A node starts with its database only.
		if slices.ContainsFunc(plan[i], func(f nemesisFault) bool { return f.kind.away() }) {
			for j := range plan[i] {
				if plan[i][j].kind.starts() {
					plan[i][j].end = length
				}
			}
		}
	}
	return plan
}

func rand64(rng *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(below)))
}

func draw(rng *rand.Rand, k nemesisKind, length time.Duration) nemesisFault {
	f := nemesisFault{kind: k, begin: rand64(rng, length/2)}
	f.end = f.begin + (length-f.begin)/4 + rand64(rng, (length-f.begin)*3/4)
	f.at = regions[rng.IntN(len(regions))]
	switch k {
	case kill, stop, freeze, drop:
		f.at = nemesisNodes[rng.IntN(len(nemesisNodes))]
	case dropFrom:
		i, j := rng.IntN(len(nemesisNodes)), 1+rng.IntN(len(regions)-1)
		f.at, f.from = nemesisNodes[i], regions[(i/2+j)%len(regions)]
	case wire:
		for range 1 + rng.IntN(4) {
			f.shots = append(f.shots, nemesisShot{
				wireproxy.DropBefore + wireproxy.Fault(rng.IntN(int(wireproxy.RowsThenError))),
				nemesisStatements[rng.IntN(len(nemesisStatements))], 1 + rng.IntN(8),
			})
		}
	case leases, ranges:
		f.table = nemesisTables[rng.IntN(len(nemesisTables))]
	case mute, slow:
		f.at = judged
	}
	return f
}

// away reports whether a region may be without its database meanwhile.
func (k nemesisKind) away() bool {
	return k == refuse || k == path || k == killDB || k == freezeDB
}

// starts reports whether a node starts when it ends.
func (k nemesisKind) starts() bool { return k == kill || k == stop || k == lose }

// holds are what no other fault may hold at the same time.
func (f nemesisFault) holds() []string {
	switch f.kind {
	case kill, stop, freeze:
		return []string{f.at}
	case lose:
		return []string{f.at + "-1", f.at + "-2"}
	case drop, dropFrom:
		return []string{"gate of " + f.at}
	case refuse, path:
		return []string{string(f.kind) + f.at}
	case killDB, freezeDB: // of one region at a time: a majority is left
		return []string{"database"}
	case leases, ranges:
		return []string{string(f.kind) + f.table}
	case mute, slow:
		return []string{judged}
	default:
		return nil
	}
}

// TestNemesisPlan: the schedule follows from the seed alone, ends what it begins, and uses each kind
// in some run and not in another.
func TestNemesisPlan(t *testing.T) {
	t.Parallel()
	for _, database := range []localdb.Kind{localdb.PostgreSQL, localdb.CockroachDB} {
		in := map[nemesisKind]int{}
		const seeds = 200
		for seed := range uint64(seeds) {
			plan := nemesisPlan(seed, database, 5, time.Second)
			require.Equal(t, plan, nemesisPlan(seed, database, 5, time.Second))
			has := map[nemesisKind]bool{}
			for _, step := range plan {
				require.NotEmpty(t, step)
				for _, f := range step {
					require.Less(t, f.begin, f.end, "%v", f)
					require.LessOrEqual(t, f.end, time.Second)
					require.NotEqual(t, f.from, regionOf(f.at+"--"), "%v", f)
					has[f.kind] = true
				}
			}
			for k := range has {
				in[k]++
			}
		}
		for _, k := range nemesisKinds(database) {
			require.NotZero(t, in[k], k)
			require.Less(t, in[k], seeds, k)
		}
	}
}
