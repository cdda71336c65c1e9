package model

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// some are costs of no particular day.
var some = Costs{
	Date: "2026-11-22", Database: "PostgreSQL 15", NodeCharge: 300, NodeReplay: 60, DatabaseCharge: 500, DatabaseReplay: 80, DatabaseIdle: 0.05,
	WAL: 3000, Record: 2500, Audit: 400, Books: 500,
}

// queue is one station of one region, as the closed forms know it: all requests are
// replays, and only a node's core takes time.
func queue(cores int, rate, holds float64) Simulation {
	s := DefaultSimulation()
	s.Lose, s.Regions, s.NodeCores, s.DatabaseCores = false, 1, cores, 1
	s.Costs, s.Replays, s.Rate, s.Patience = Costs{NodeReplay: holds * 1e6}, 1, rate, 1e6
	s.Peak = 100_000 / rate
	return s
}

// The simulation is that of M/M/c where it can be computed.
func TestSimulationAgreesWithTheClosedForm(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates for seconds")
	}
	for _, c := range []struct {
		cores int
		load  float64
	}{{1, 0.5}, {1, 0.8}, {4, 0.7}, {16, 0.9}} {
		holds := 0.01
		rate := c.load * float64(c.cores) / holds
		var mean, tail float64
		const seeds = 3
		for seed := range seeds {
			s := queue(c.cores, rate, holds)
			s.Seed = uint64(seed)
			out, err := s.Run()
			require.NoError(t, err)
			mean, tail = mean+out.Peak.Mean/seeds, tail+out.Peak.P99/seeds
			require.InDelta(t, c.load, out.Peak.NodeBusy, 0.02, "cores %d", c.cores)
		}
		want := holds + ErlangC(c.cores, c.load*float64(c.cores))/(float64(c.cores)/holds-rate)
		require.InEpsilon(t, want, mean, 0.08, "%d cores at %v", c.cores, c.load)
		if c.cores == 1 { // the time in the system is exponential
			require.InEpsilon(t, math.Log(100)/(1/holds-rate), tail, 0.1, "p99 at %v", c.load)
		}
	}
	require.InDelta(t, 0.5, ErlangC(1, 0.5), 1e-12)
	require.InDelta(t, 1./3, ErlangC(2, 1), 1e-12)
	require.InDelta(t, 1., ErlangC(2, 2), 0)
}

func lossOf(regions int, rate, room float64) Simulation {
	s := DefaultSimulation()
	s.Costs, s.Replays, s.Regions, s.Rate = some, 0.1, regions, rate
	s.Peak, s.Detect, s.Spread, s.After = 2, 0.5, 0.5, 2
	left := rate / float64(regions-1)
	s.NodeCores = int(math.Ceil(busy(left, s.Replays, some.NodeCharge, some.NodeReplay) / room))
	s.DatabaseCores = int(math.Ceil(busy(left, s.Replays, some.DatabaseCharge, some.DatabaseReplay) / room))
	return s
}

// Every request ends, wherever a region is lost and however little room the others have.
// Run itself fails where one does not.
func TestNoRequestIsLost(t *testing.T) {
	for _, regions := range []int{2, 3} {
		for _, room := range []float64{0.6, 0.95, 1.4} {
			for seed := range uint64(3) {
				s := lossOf(regions, 600, room)
				s.Seed, s.Patience = seed, 1
				out, err := s.Run()
				require.NoError(t, err, "%d regions, %v", regions, room)
				require.Equal(t, out.Requests, out.Answered+out.GivenUp+out.Open)
				require.InEpsilon(t, s.Rate*(s.Peak+s.Detect+s.Spread+s.After), out.Requests, 0.1)
			}
		}
	}
}

// What is lost shows: with room enough nobody gives up and the tail is short; without,
// work piles up, and stays.
func TestALostRegionNeedsRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates for seconds")
	}
	roomy, err := lossOf(3, 20_000, 0.5).Run()
	require.NoError(t, err)
	require.Zero(t, roomy.GivenUp)
	require.Greater(t, roomy.After.NodeBusy, roomy.Peak.NodeBusy, "the others carry more")
	require.InDelta(t, 0.5, roomy.After.NodeBusy, 0.05)
	require.GreaterOrEqual(t, roomy.Drained, 0.)

	tight, err := lossOf(3, 20_000, 0.95).Run()
	require.NoError(t, err)
	require.Greater(t, tight.Storm.Waiting, roomy.Storm.Waiting)
	require.Greater(t, tight.Storm.P99, roomy.Storm.P99)

	short := lossOf(3, 20_000, 1.3)
	short.Patience = 0.5
	over, err := short.Run()
	require.NoError(t, err)
	require.Greater(t, over.After.P99, 10*roomy.After.P99)
	require.Greater(t, over.GivenUp+over.Open, roomy.GivenUp+roomy.Open)
	require.Negative(t, over.Drained)
}

func TestSimulationRepeatsItself(t *testing.T) {
	one, err := lossOf(3, 500, 0.8).Run()
	require.NoError(t, err)
	two, err := lossOf(3, 500, 0.8).Run()
	require.NoError(t, err)
	require.Equal(t, one, two)
	other := lossOf(3, 500, 0.8)
	other.Seed = 2
	three, err := other.Run()
	require.NoError(t, err)
	require.NotEqual(t, one, three)

	for _, bad := range []Simulation{{}, func() Simulation { s := lossOf(2, 1, 0.5); s.Regions = 1; return s }()} {
		_, err := bad.Run()
		require.Error(t, err)
	}
}

// The formula by hand, for one demand.
func TestPlanByHand(t *testing.T) {
	a := DefaultAssumptions()
	a.Replays, a.Busy, a.AverageLoad, a.LeastNodes, a.LeastDatabases = 0, 0.5, 0.5, 1, 1
	a.NodeCores, a.DatabaseCores, a.Copies = 4, 8, 3
	c := some
	c.DatabaseIdle = 0
	p := NewPlan(c, a, Demand{Rate: 60_000, Regions: 3})
	// 30,000/s at each of two: 9 cores of nodes and 15 of the database, at half.
	require.Equal(t, []int{5, 4}, []int{p.Nodes, p.Databases})
	require.InDelta(t, 6./20, p.NodeBusy, 1e-9)
	require.InDelta(t, 9./20, p.NodeBusyLost, 1e-9)
	require.InDelta(t, 15./32, p.DatabaseBusyLost, 1e-9)
	// 30,000 charges/s on average; three copies at home and one in each other region.
	require.InDelta(t, 30_000*49*3600*2200*5/1e9, p.Records, 1e-6)
	require.InDelta(t, 30_000*400*86400*400*5/1e9, p.Audit, 1e-6)
	require.InDelta(t, 30_000.*5*365*86400*500*5/1e9, p.Books, 1e-3)
	require.InDelta(t, 3*20*a.Prices.NodeCoreHour*730, p.NodeMoney, 1e-6)
	require.InDelta(t, p.NodeMoney+p.DatabaseMoney+p.StorageMoney+p.TrafficMoney, p.Money(), 1e-9)
}

// More is asked for, or costs more: more is needed, and never less.
func TestPlansGrow(t *testing.T) {
	a := DefaultAssumptions()
	for _, regions := range []int{1, 2, 3, 5} {
		var last Plan
		for _, rate := range []float64{10, 1000, 10_000, 50_000, 100_000} {
			p := NewPlan(some, a, Demand{rate, regions})
			require.GreaterOrEqual(t, p.Nodes, max(a.LeastNodes, last.Nodes))
			require.GreaterOrEqual(t, p.Databases, max(a.LeastDatabases, last.Databases))
			require.Greater(t, p.Records, last.Records)
			require.Greater(t, p.Money(), last.Money())
			require.LessOrEqual(t, p.NodeBusyLost, a.Busy)
			require.LessOrEqual(t, p.DatabaseBusyLost, a.Busy)
			last = p
		}
	}
	dear := some
	dear.DatabaseCharge *= 10
	d := Demand{50_000, 3}
	require.Greater(t, NewPlan(dear, a, d).Databases, NewPlan(some, a, d).Databases)
	// Each of three regions needs less than each of two.
	require.Less(t, NewPlan(some, a, d).Nodes, NewPlan(some, a, Demand{50_000, 2}).Nodes)
}

func TestAssumptionsAreChecked(t *testing.T) {
	require.NoError(t, DefaultAssumptions().Validate())
	for _, spoil := range []func(*Assumptions){
		func(a *Assumptions) { a.Busy = 0 }, func(a *Assumptions) { a.Busy = 1.1 }, func(a *Assumptions) { a.Replays = 2 },
		func(a *Assumptions) { a.NodeCores = 0 }, func(a *Assumptions) { a.AverageLoad = 0 },
	} {
		a := DefaultAssumptions()
		spoil(&a)
		require.Error(t, a.Validate())
	}
}

func TestCostsAreFoundInAPage(t *testing.T) {
	got, err := ReadCosts("# Benchmarks\n\n```\n## Costs of nothing\n```\n\n" + some.Block() + "\n## More\n")
	require.NoError(t, err)
	require.Equal(t, some, got)
	_, err = ReadCosts("# Benchmarks\n")
	require.ErrorContains(t, err, "no block of costs")
	_, err = ReadCosts(strings.Replace(some.Block(), "node_us", "knot_us", 1))
	require.ErrorContains(t, err, "cannot be read")
}

// The page keeps what people wrote, and gets what is generated once.
func TestPageIsRenewed(t *testing.T) {
	page := "# Sizing\n\nby hand\n\n" + Begin + "\nold\n" + End + "\n\nby hand, too\n"
	got, err := Renew(page, "new\n")
	require.NoError(t, err)
	require.Equal(t, "# Sizing\n\nby hand\n\n"+Begin+"\n\nnew\n\n"+End+"\n\nby hand, too\n", got)
	again, err := Renew(got, "new\n")
	require.NoError(t, err)
	require.Equal(t, got, again)
	_, err = Renew("# Sizing\n", "new\n")
	require.ErrorContains(t, err, "marks")
}

func TestTablesSpeakOfEveryDemand(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates a dozen deployments")
	}
	s := DefaultSimulation()
	s.Peak, s.Detect, s.Spread, s.After = 0.2, 0.05, 0.05, 0.1
	text, err := Tables(some, DefaultAssumptions(), s, []float64{1000, 2000}, []int{2, 3})
	require.NoError(t, err)
	for _, want := range []string{"| 1,000 | 2 |", "| 1,000 | 3 |", "| 2,000 | 2 |", "| 2,000 | 3 |", some.Database, some.Date, "2026-11"} {
		require.Contains(t, text, want)
	}
	// An unmeasured cost would be a plan for nothing.
	_, err = Tables(Costs{NodeCharge: 1}, DefaultAssumptions(), s, []float64{1000}, []int{2})
	require.ErrorContains(t, err, "not measured")
}
