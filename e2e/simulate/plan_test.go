package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fault is one thing done to a cluster, from begin to end after its step began.
type fault struct {
	kind       kind
	at, from   []string // nodes or regions
	begin, end time.Duration
	amount     int           // a share in percent
	by         time.Duration // how slow, how late, or how far
}

func (f fault) String() string {
	all := []string{string(f.kind), strings.Join(f.at, ",")}
	if len(f.from) > 0 {
		all = append(all, "from "+strings.Join(f.from, ","))
	}
	if f.amount > 0 {
		all = append(all, fmt.Sprintf("%d%%", f.amount))
	}
	if f.by != 0 {
		all = append(all, f.by.String())
	}
	return fmt.Sprintf("%s, %v to %v", strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " "), f.begin.Round(time.Millisecond), f.end.Round(time.Millisecond))
}

type kind string

// What can be done. To add a kind, give it a place here, in kinds, in draw, and in begin of
// faults_test.go, which returns how it ends.
const (
	kill      kind = "kill"        // a node dies, then starts
	stop      kind = "stop"        // a node drains and ends, then starts
	lose      kind = "lose region" // all nodes of a region die, then start
	freeze    kind = "freeze"      // a node neither sends nor gets anything, then goes on
	power     kind = "power cut"   // all nodes die with the store, which loses unsynced writes
	crash     kind = "store crash" // the store loses unsynced writes, and is back after a while; nodes live on
	full      kind = "full disk"   // the store can write nothing and ends, and is back, with room, after a while; nodes live on
	rotate    kind = "new keys"    // nodes restart, one by one and three times, to take new sealing and gossip keys
	part      kind = "part"        // some nodes and the others do not reach each other
	oneway    kind = "one way"     // what some nodes send to others does not arrive
	away      kind = "no provider" // nodes do not reach the provider
	slowWay   kind = "slow way"    // what is sent to some nodes is late
	gossiping kind = "gossip"      // packets of gossip are lost, late, and there twice
	slowDisk  kind = "slow store"  // each step of a region's nodes
	lostStep  kind = "lost step"   // some steps of a region's nodes do not reach the store
	lateStep  kind = "late step"   // some take effect after their caller has given up
	lostReply kind = "lost reply"  // some take effect, and their caller gets no answer
	storeCut  kind = "store cut"   // a region does not reach the rows of another
	clock     kind = "clock"       // the clock of store and provider jumps
	mute      kind = "provider mute"
	slow      kind = "provider slow"
	closed    kind = "circuit open"     // some nodes send nothing to one of two providers
	forget    kind = "provider forgets" // it answers nothing for longer than it remembers keys
	drain     kind = "drain"            // a region takes no new homes
	registrar kind = "registrar"        // a tenant's registrar moves
	skew      kind = "node's clock"     // a node's own clock jumps, and is put right later
	restored  kind = "restore"          // the store is lost, and put back from a backup
	added     kind = "new region"       // a fourth region gets its row, and later its nodes
	renewed   kind = "new certificates" // nodes get new certificates, then those of a new authority
	killAt    kind = "kill at step"     // the node dies that is the first to reach a crossing, then starts
	freezeAt  kind = "freeze at step"   // it freezes there
)

// While the provider forgets, the clock jumps so often, so far apart, and so far. A call is on its way
// for less than a pause, so it sees one jump, which is below the hour that Homeward allows it.
const (
	forgetting  = 3
	forgetEvery = 90 * time.Second
	forgetJump  = 40 * time.Minute
)

// kinds are all. A seed's schedule depends on their order.
var kinds = []kind{
	kill, stop, lose, freeze, power, rotate, part, oneway, away, slowWay, gossiping, slowDisk, lostStep, lateStep, lostReply, storeCut, clock, mute, slow, forget,
	drain, registrar,
}

func allKinds() []kind {
	return append(append(slices.Clone(kinds), rare...), skew, crash, full, closed, added, renewed, killAt, freezeAt)
}

// skewed has a node's clock wrong in a step, by what the deployment allows or by far more. With half of the seeds
// it befalls every second step, beside all other faults.
func skewed(seed uint64, step int) []fault {
	rng := rand.New(rand.NewPCG(seed, 5+uint64(step)))
	if rand.New(rand.NewPCG(seed, 4)).IntN(2) == 0 || rng.IntN(2) == 0 {
		return nil
	}
	return []fault{draw(rng, skew, 20*time.Second+between(rng, 70*time.Second), regions)}
}

// crashes has the store crash in a step, or its disk fill up. With one in so many seeds it does so in every second step,
// beside all other faults.
func crashes(seed uint64, step int) []fault {
	rng := rand.New(rand.NewPCG(seed, 1<<16+uint64(step)))
	if rand.New(rand.NewPCG(seed, 1<<16-1)).IntN(crashing) > 0 || rng.IntN(2) == 0 {
		return nil
	}
	return []fault{draw(rng, []kind{crash, full}[step%2], 20*time.Second+between(rng, 40*time.Second), regions)}
}

// closes has circuits to one of a seed's two providers open in a step, or none.
func closes(seed uint64, step int) []fault {
	rng := rand.New(rand.NewPCG(seed, 1<<17+uint64(step)))
	if !ofTwo(seed) || rng.IntN(2) == 0 {
		return nil
	}
	return []fault{draw(rng, closed, 20*time.Second+between(rng, time.Minute), regions)}
}

// joins is the step in which a seed's run gets the fourth region, steps if it gets none. A gateway whose settings
// name an upstream for each region would have to start again with others.
func joins(seed uint64, steps int) int {
	_, at := once(seed, steps)
	if seed%joining != joining-1 || steps < rareFrom || at >= 0 || ofGateway(seed) && upstreamsOf(seed) != single {
		return steps
	}
	return rand.New(rand.NewPCG(seed, 6)).IntN(steps)
}

// renews is the step in which a seed's nodes get new certificates, steps if they get none.
func renews(seed uint64, steps int) int {
	rng := rand.New(rand.NewPCG(seed, 7))
	if rng.IntN(renewing) > 0 {
		return steps
	}
	return rng.IntN(steps)
}

// One in so many seeds has the fourth region, as two nodes more cost time, one in so many new certificates, and one in
// so many a store that crashes and a disk that fills up.
const (
	joining  = 5
	renewing = 2
	crashing = 3
)

// rare are kinds that a run has once, if at all: each costs minutes, or changes what merchants send.
var rare = []kind{restored}

// fits reports whether a run of a seed can have a rare kind.
func (k kind) fits(seed uint64) bool {
	return k != restored || !ofStripe(seed) && !ofGateway(seed) && !ofBlind(seed)
}

// rareFrom is the steps of the shortest run that has rare faults: make test has shorter ones.
const rareFrom = 3

// once is a seed's rare fault and its step.
func once(seed uint64, steps int) (f fault, step int) {
	rng := rand.New(rand.NewPCG(seed, 3))
	k := rare[rng.IntN(len(rare))]
	if rng.IntN(2) == 0 || !k.fits(seed) || steps < rareFrom {
		return f, -1
	}
	return draw(rng, k, 20*time.Second+between(rng, 60*time.Second), regions), rng.IntN(steps)
}

// deafens reports whether no node gets, or believes, a notice for so long that claims are given up meanwhile: the
// provider is silent, or its signatures are too old or too new.
func (f fault) deafens() bool {
	return f.kind == forget || f.kind == clock && f.by.Abs() >= time.Minute
}

// beside reports whether a run with the rare fault can have the other one.
func (f fault) beside(other kind) bool {
	return f.kind != restored || other != clock && other != forget // what is lost is a time by the store's clock
}

// nodeNames returns the names of the nodes in these regions.
func nodeNames(of []string) (all []string) {
	for _, r := range of {
		for j := range perRegion {
			all = append(all, fmt.Sprintf("%s-%d", r, j+1))
		}
	}
	return all
}

// everyNode is the name of each node that there is in some run.
func everyNode() []string { return nodeNames(append(slices.Clone(regions), fourth)) }

// plan is what is done in each step, and follows from the seed alone. Each run has a random part of
// the kinds: what many faults hide, few may show.
func plan(seed uint64, steps int) [][]fault {
	rng := rand.New(rand.NewPCG(seed, 0))
	all := slices.Clone(kinds)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	some := all[:1+rng.IntN(8)]
	plan := make([][]fault, steps)
	special, at := once(seed, steps)
	joins, renews, homes := joins(seed, steps), renews(seed, steps), regions
	for i := range plan {
		length := 5*time.Second + between(rng, 90*time.Second)
		held := map[string]bool{}
		faults := aim(rng, seed, i, steps)
		if i == at {
			faults = append([]fault{special}, faults...)
		}
		own := rand.New(rand.NewPCG(seed, 8+uint64(i)))
		if i == joins {
			faults = append([]fault{draw(own, added, length, homes)}, faults...)
		}
		if i == renews && i != joins {
			faults = append(faults, draw(own, renewed, length, homes))
		}
		faults = slices.Concat(faults, skewed(seed, i), crashes(seed, i), closes(seed, i))
		for range 1 + rng.IntN(4) {
			faults = append(faults, draw(rng, some[rng.IntN(len(some))], length, homes))
		}
		if i == joins {
			homes = append(slices.Clone(regions), fourth)
		}
		for _, f := range faults {
			if special.beside(f.kind) && !(ofBlind(seed) && f.deafens()) && !slices.ContainsFunc(f.holds(), func(what string) bool { return held[what] }) {
				for _, what := range f.holds() {
					held[what] = true
				}
				plan[i] = append(plan[i], f)
			}
		}
	}
	return plan
}

func some(rng *rand.Rand, of []string) []string {
	all := slices.Clone(of)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:1+rng.IntN(len(all)-1)]
	slices.Sort(all)
	return all
}

// draw draws a fault of a kind, in one of these regions.
func draw(rng *rand.Rand, k kind, length time.Duration, regions []string) fault {
	f := fault{kind: k, begin: between(rng, length/2)}
	f.end = f.begin + (length-f.begin)/4 + between(rng, (length-f.begin)*3/4)
	nodes := nodeNames(regions)
	one := func(of []string) []string { return []string{of[rng.IntN(len(of))]} }
	switch k {
	case kill, stop:
		f.at = one(nodes)
	case lose, drain:
		f.at = one(regions)
	case freeze:
		f.at = one(nodes)
		f.end = f.begin + []time.Duration{3 * time.Second, 28 * time.Second, 3 * time.Minute}[rng.IntN(3)]
	case power, crash, full:
		f.amount = rng.IntN(101)
	case part:
		f.at = some(rng, nodes)
		if rng.IntN(3) == 0 { // a region
			r := one(regions)[0]
			f.at = []string{r + "-1", r + "-2"}
		}
	case oneway:
		f.at, f.from = some(rng, nodes), some(rng, nodes)
	case away:
		f.at = some(rng, nodes)
	case closed:
		f.at, f.amount = some(rng, nodes), rng.IntN(2) // which provider
	case slowWay:
		f.at, f.by = some(rng, nodes), 50*time.Millisecond+between(rng, 3*time.Second)
	case gossiping:
		f.amount, f.by = 10+rng.IntN(80), between(rng, 30*time.Second)
	case slowDisk:
		f.at, f.by = one(regions), 10*time.Millisecond+between(rng, 4*time.Second)
	case lostStep, lateStep, lostReply:
		f.at, f.amount = one(regions), 2+rng.IntN(40)
	case storeCut:
		i := rng.IntN(len(regions))
		f.at, f.from = []string{regions[i]}, []string{regions[(i+1+rng.IntN(len(regions)-1))%len(regions)]}
		f.amount = rng.IntN(3) // which way
	case clock:
		f.by = []time.Duration{500 * time.Millisecond, 20 * time.Second, 30 * time.Minute}[rng.IntN(3)] * time.Duration(1-2*rng.IntN(2))
	case forget:
		f.end = f.begin + forgetting*forgetEvery + between(rng, time.Minute)
	case registrar:
		f.at, f.from = one(regions), one(tenants)
	case restored:
		f.amount = rng.IntN(restoreWays)
	case added:
		f.at = []string{fourth}
	case skew:
		f.at = one(nodes)
		f.by = []time.Duration{400 * time.Millisecond, 10 * time.Second, 5 * time.Hour}[rng.IntN(3)] * time.Duration(1-2*rng.IntN(2))
	}
	return f
}

// holds are what no other fault may hold in the same step.
func (f fault) holds() (what []string) {
	switch f.kind {
	case kill, stop, freeze:
		return f.at
	case killAt, freezeAt:
		return everyNode()
	case lose:
		return []string{f.at[0] + "-1", f.at[0] + "-2"}
	case power, rotate:
		return append(everyNode(), "regions")
	case restored:
		return append(everyNode(), "regions", string(clock), string(storeCut))
	case mute, slow:
		return []string{provider}
	case forget: // while it jumps, no call may be held up on its way
		return append(everyNode(), provider, string(clock))
	case away, slowWay, clock:
		return []string{string(clock)}
	case drain, registrar, added, crash, full:
		return []string{"regions"}
	case storeCut:
		return []string{string(f.kind)}
	default:
		return nil
	}
}

// TestPlan: the schedule follows from the seed alone, and uses each kind in some run and not in another.
func TestPlan(t *testing.T) {
	t.Parallel()
	in := map[kind]int{}
	const seeds = 200
	for seed := range uint64(seeds) {
		p := plan(seed, 6)
		require.Equal(t, p, plan(seed, 6))
		has := map[kind]bool{}
		for _, step := range p {
			for _, f := range step {
				require.Less(t, f.begin, f.end, "%v", f)
				has[f.kind] = true
			}
		}
		for k := range has {
			in[k]++
		}
	}
	for _, k := range allKinds() {
		require.NotZero(t, in[k], k)
		require.Less(t, in[k], seeds, k)
	}
}
