package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/lab/localdb"
)

const (
	// conns is the number of connections that budgets are set for.
	conns = 64
	// farRTT is the distance of */away, pspLatency the provider's in */latency, at
	// pacedRate.
	farRTT, pspLatency = 80 * time.Millisecond, 80 * time.Millisecond
	pacedRate          = 200
	// manyNodes is how many idle nodes are compared with one.
	manyNodes = 4
	// leastSeen is in cores: the clock ticks of /proc do not tell less apart.
	leastSeen = 0.002
)

// measure is a figure of a run, with its name and the way it is printed.
type measure struct {
	name  string
	of    func(figures) float64
	print func(float64) string
}

func millis(v float64) string { return fmt.Sprintf("%.2f ms", v/1e6) }
func micros(v float64) string { return fmt.Sprintf("%.0f µs", v/1e3) }

var (
	rates  = measure{"rate", func(f figures) float64 { return f.rate }, func(v float64) string { return fmt.Sprintf("%.0f/s", v) }}
	p99s   = measure{"p99", func(f figures) float64 { return float64(f.p99) }, millis}
	added  = measure{"added p50", func(f figures) float64 { return float64(f.p50 - pspLatency) }, millis}
	added9 = measure{"added p99", func(f figures) float64 { return float64(f.p99 - pspLatency) }, millis}
	dbCPUs = measure{"database CPU a charge", func(f figures) float64 { return float64(f.database) }, micros}
	trips  = measure{"p99, in round trips", func(f figures) float64 { return float64(f.p99) / float64(farRTT) }, func(v float64) string { return fmt.Sprintf("%.2f", v) }}
	cores  = measure{"cores of the idle database", func(f figures) float64 { return max(leastSeen, f.cores) }, func(v float64) string { return fmt.Sprintf("%.3f", v) }}
	times  = measure{"time a request", func(f figures) float64 { return 1e9 / f.rate }, micros}
	peaks  = measure{"peak of memory", func(f figures) float64 { return f.peak }, func(v float64) string { return fmt.Sprintf("%.0f MiB", v) }}
)

// budget bounds a side's figure: its ratio to the first side's in the same turn, or, with
// alone, the figure itself.
type budget struct {
	side    string
	measure measure
	bound   float64
	least   bool // the figure is at least bound, else at most
	alone   bool
}

// side is one of the things that a case compares.
type side struct {
	name string
	role string
	args []string
	load load
	// entry is the region that is loaded, everywhere that all are, in equal shares.
	entry      int
	everywhere bool
	// psp is how long the provider takes.
	psp time.Duration
	// gateway: it is in front of an API.
	gateway bool
	// nodes is how many processes are watched without load; 0 for a side that is loaded.
	nodes int
}

// testCase is a case: its sides take turns, and budgets bound them.
type testCase struct {
	name    string // "embedded/charge": the engine, and what is measured; of a gateway behind "gateway/"
	sides   []side
	budgets []budget
}

// engine is that part of a case's name: "embedded" or a [localdb.Kind].
func (c testCase) engine() string {
	engine, _, _ := strings.Cut(strings.TrimPrefix(c.name, "gateway/"), "/")
	return engine
}

// embedded is the engine without a database.
const embedded = "embedded"

// engines are in the order of the page.
var engines = []string{string(localdb.CockroachDB), string(localdb.PostgreSQL), embedded}

// mostMemory bounds the resident set of a process of Homeward's.
var mostMemory = budget{side: "homeward", measure: peaks, bound: 150, alone: true}

// cases lists every case with its budgets, which are agreed: a figure may fall to its budget
// in exchange for a mechanism that goes, and not below it.
func cases(o options) []testCase {
	full := load{conns: conns, warm: o.warm, window: o.window}
	stamped, replay, paced := full, full, full
	stamped.stamped = true
	replay.replay = o.keys
	paced.rate, paced.window = pacedRate, o.paced
	// A margin over the lag covers the primed keys' own spread in time.
	away := paced
	away.replay, away.settle = o.keys, o.lag+100*time.Millisecond

	floor := func(l load, args ...string) side {
		return side{name: "floor", role: "floor", args: args, load: l, everywhere: l.replay == 0}
	}
	node := func(name string, l load, args ...string) side {
		return side{name: name, role: "nodes", args: args, load: l, everywhere: l.replay == 0}
	}
	one := func(l load, args ...string) side { return side{name: "homeward", role: "cluster", args: args, load: l} }
	charges := func(n side) []side { return []side{floor(full), n} }
	replays := func(n side) []side { return []side{floor(replay, "-replay"), n} }
	latency := func(n side) []side {
		both := []side{floor(paced), n}
		for i := range both {
			both[i].psp = pspLatency
		}
		return both
	}
	enoughReplays := []budget{{side: "homeward", measure: rates, bound: 0.5, least: true}}
	littleAdded := []budget{{side: "homeward", measure: added, bound: 1.4}, {side: "homeward", measure: added9, bound: 1.4}}
	front := func(l load, psp time.Duration) []side {
		both := []side{floor(l), one(l)}
		for i := range both {
			both[i].gateway, both[i].psp = true, psp
		}
		return both
	}
	bare := full
	bare.unguarded = true
	pass := front(bare, 0)
	pass[0].args = []string{"-bare=false"}
	enoughSent := []budget{{side: "homeward", measure: rates, bound: 0.7, least: true}}
	littleAddedInFront := []budget{{side: "homeward", measure: added9, bound: 1.5}}
	far := one(away, "-regions=3", "-wan="+farRTT.String(), "-lag="+o.lag.String())
	far.entry = 1
	event, both := node("homeward-event", full, "-event"), node("homeward", full)

	return []testCase{
		{"cockroachdb/charge", append(charges(event), node("homeward-stamped", stamped)), []budget{
			{side: "homeward-event", measure: dbCPUs, bound: 0.6}, {side: "homeward-event", measure: rates, bound: 1.3, least: true},
			{side: "homeward-stamped", measure: dbCPUs, bound: 0.4}, {side: "homeward-stamped", measure: rates, bound: 2, least: true},
		}},
		{"cockroachdb/replay", replays(node("homeward", replay)), enoughReplays},
		{"postgresql/charge", append(charges(both), event), []budget{
			{side: "homeward", measure: rates, bound: 0.8, least: true}, {side: "homeward", measure: p99s, bound: 1.5},
		}},
		{"postgresql/replay", replays(node("homeward", replay)), enoughReplays},
		{"postgresql/latency", latency(node("homeward", paced)), littleAdded},
		{"postgresql/idle", []side{{name: "1-node", role: "nodes", nodes: 1}, {name: "more-nodes", role: "nodes", nodes: manyNodes}}, []budget{
			{side: "more-nodes", measure: cores, bound: 1.1}, // flat, but for noise
		}},
		{"embedded/charge", charges(one(full)), []budget{{side: "homeward", measure: rates, bound: 0.5, least: true}}},
		{"embedded/replay", replays(one(replay)), enoughReplays},
		{"embedded/latency", latency(one(paced)), littleAdded},
		{"embedded/away", []side{far}, []budget{{side: "homeward", measure: trips, bound: 0.5, alone: true}}},
		{"gateway/postgresql/send", front(full, 0), enoughSent},
		{"gateway/postgresql/latency", front(paced, pspLatency), littleAddedInFront},
		{"gateway/embedded/send", front(full, 0), enoughSent},
		{"gateway/embedded/latency", front(paced, pspLatency), littleAddedInFront},
		{"gateway/embedded/pass", pass, []budget{{side: "homeward", measure: times, bound: 1.1}}},
	}
}

// spread is the median, the least and the greatest of some runs.
type spread struct{ median, min, max float64 }

func spreadOf(runs []float64) spread {
	all := slices.Sorted(slices.Values(runs))
	mid := all[len(all)/2]
	if len(all)%2 == 0 {
		mid = (all[len(all)/2-1] + mid) / 2
	}
	return spread{mid, all[0], all[len(all)-1]}
}

func (m measure) spread(runs []figures) spread {
	all := make([]float64, len(runs))
	for i, r := range runs {
		all[i] = m.of(r)
	}
	return spreadOf(all)
}

// verdict is what became of a budget.
type verdict struct {
	what                 string
	figure, floor, ratio string
	allowed              string
	measured, missed     bool
}

// judge compares runs with the budget; first are the runs of the first side.
func (b budget) judge(c string, first, runs []figures) verdict {
	sign, format := "≤", func(v float64) string { return fmt.Sprintf("%.2f", v) }
	if b.least {
		sign = "≥"
	}
	v := verdict{what: fmt.Sprintf("%s, %s: %s", c, b.side, b.measure.name), measured: len(runs) > 0, figure: "–", floor: "–", ratio: "–"}
	if b.alone {
		format = b.measure.print
	}
	v.allowed = sign + " " + format(b.bound)
	if !v.measured {
		return v
	}
	got := b.measure.spread(runs)
	v.figure = b.measure.print(got.median)
	if b.alone {
		v.figure += fmt.Sprintf(" (%s–%s)", format(got.min), format(got.max))
	} else {
		v.floor = b.measure.print(b.measure.spread(first).median)
		ratios := make([]float64, len(runs))
		for i := range runs {
			ratios[i] = b.measure.of(runs[i]) / b.measure.of(first[i])
		}
		got = spreadOf(ratios)
		v.ratio = fmt.Sprintf("%s (%s–%s)", format(got.median), format(got.min), format(got.max))
	}
	kept := got.median <= b.bound // what is no number is not kept
	if b.least {
		kept = got.median >= b.bound
	}
	v.missed = !kept
	return v
}

// says is the last cell of a row.
func (v verdict) says() string {
	switch {
	case !v.measured:
		return "not measured"
	case v.missed:
		return "MISSED"
	default:
		return "kept"
	}
}

func (v verdict) row(between string) string {
	return strings.Join([]string{v.what, v.figure, v.floor, v.ratio, v.allowed, v.says()}, between)
}
