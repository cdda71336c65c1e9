package model

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Simulation is a deployment under load: in each region the cores of its nodes and of its
// database, each a queue of who waits for the next free one. A charge takes a node, the
// database (claim), the provider, the database (settle) and the node again; a replay a
// node and the database. How long each holds a core is exponential about what was
// measured, which is more uneven than it was. Times are in seconds.
type Simulation struct {
	Costs   Costs
	Rate    float64 // requests per second of all regions, arriving at random
	Replays float64
	Regions int
	// Cores of one region.
	NodeCores, DatabaseCores int
	Provider                 float64 // how long it takes, always
	// Patience is how long a client waits for an answer before it sends the same request
	// again, Tries how often it sends it.
	Patience float64
	Tries    int
	// Peak is how long all is well. Then, unless Lose is false, the last region is gone:
	// what it had is not answered. For Detect more seconds requests go on to it; then
	// they go to the others, and all that it has not answered comes again to them, at
	// random times within Spread.
	Peak, Detect, Spread float64
	Lose                 bool
	// After is how long what follows is watched.
	After float64
	Seed  uint64
}

// DefaultSimulation has what docs/SIZING.md assumes of clients, provider and a loss.
func DefaultSimulation() Simulation {
	return Simulation{Provider: 0.08, Patience: 10, Tries: 3, Peak: 10, Detect: 5, Spread: 5, Lose: true, After: 10, Seed: 1}
}

// Phase is what a part of the time was like.
type Phase struct {
	// NodeBusy and DatabaseBusy are shares of the cores of the regions that serve.
	NodeBusy, DatabaseBusy float64
	// Mean, P50 and P99 of answers, in seconds from when the request was sent that was
	// answered.
	Mean, P50, P99 float64
	// Waiting is the most that ever waited for a core in one region.
	Waiting int
}

// Outcome is the result of a simulation.
type Outcome struct {
	Peak, Storm, After Phase
	// Requests of clients, whatever they sent again: each was answered, given up, or is
	// still open at the end.
	Requests, Answered, GivenUp, Open int
	// Drained is how long after the loss nobody waits for a core for the first time since
	// all that was not answered had come again; negative if that was not seen.
	Drained float64
}

// client is one request, however often it is sent.
type client struct {
	replay, done bool
	tries        int
	region       int // where it was sent last
}

// visit is one time that a request is sent.
type visit struct {
	c      *client
	sent   float64
	region int
	stage  int
	try    int
}

// station is the cores of one sort in one region, and who waits.
type station struct {
	cores, taken int
	queue        []*visit
	head         int
	busy         float64 // core seconds of this phase
}

func (s *station) waiting() int { return len(s.queue) - s.head }

func (s *station) pop() *visit {
	v := s.queue[s.head]
	s.queue[s.head] = nil
	if s.head++; s.head > 1024 && 2*s.head > len(s.queue) {
		s.queue, s.head = append([]*visit(nil), s.queue[s.head:]...), 0
	}
	return v
}

// event is something that happens at a time of its own.
type event struct {
	at float64
	// v leaves a core of a station; or, without a station, c sends again.
	v  *visit
	st *station
	c  *client
}

type events []event

func (h events) Len() int           { return len(h) }
func (h events) Less(i, j int) bool { return h[i].at < h[j].at }
func (h events) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)        { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// fifo is of visits that all wait equally long, so that the first in is the first out.
type fifo struct {
	delay float64
	all   []timed
	head  int
}

type timed struct {
	at float64
	v  *visit
}

func (q *fifo) add(now float64, v *visit) { q.all = append(q.all, timed{now + q.delay, v}) }

// next is when the first is due, far away if there is none.
func (q *fifo) next() float64 {
	if q.head == len(q.all) {
		return never
	}
	return q.all[q.head].at
}

func (q *fifo) pop() *visit {
	v := q.all[q.head].v
	q.all[q.head].v = nil
	if q.head++; q.head > 1024 && 2*q.head > len(q.all) {
		q.all, q.head = append([]timed(nil), q.all[q.head:]...), 0
	}
	return v
}

const never = 1e18

// Stages of a charge; a replay has the first two, whole.
const (
	atNode = iota
	atClaim
	atProvider
	atSettle
	atReply
	answered
)

type run struct {
	Simulation
	rng              *rand.Rand
	now              float64
	nodes, databases []*station
	heap             events
	provider         fifo
	patience         fifo
	lost             bool // the last region
	known            bool // and everybody knows
	unanswered       []*client
	out              Outcome
	latency          *hdrhistogram.Histogram
	phase            Phase
	began            float64 // this phase
	clear            float64
}

// Run simulates. The same Simulation has the same Outcome.
func (s Simulation) Run() (Outcome, error) {
	if s.Rate <= 0 || s.Regions < 1 || s.NodeCores < 1 || s.DatabaseCores < 1 || s.Peak <= 0 || s.Tries < 1 || s.Patience <= 0 {
		return Outcome{}, errors.New("a simulation needs a rate, a region, cores of both sorts, a time of peak, a try and patience")
	}
	if s.Lose && s.Regions < 2 {
		return Outcome{}, errors.New("the only region cannot be lost")
	}
	r := &run{Simulation: s, rng: rand.New(rand.NewPCG(s.Seed, 0)), clear: -1}
	r.provider.delay, r.patience.delay = s.Provider, s.Patience
	for range s.Regions {
		r.nodes, r.databases = append(r.nodes, &station{cores: s.NodeCores}), append(r.databases, &station{cores: s.DatabaseCores})
	}
	arrival := r.rng.ExpFloat64() / s.Rate
	r.begin()
	// What fills up at first is no part of the peak.
	arrival = r.until(s.Peak/5, arrival)
	r.begin()
	arrival = r.until(s.Peak, arrival)
	r.out.Peak = r.end()
	if s.Lose {
		r.lose()
		arrival = r.until(s.Peak+s.Detect, arrival)
		r.tell()
		r.begin() // the storm is what those have who are left
		arrival = r.until(s.Peak+s.Detect+s.Spread, arrival)
		r.out.Storm = r.end()
		arrival = r.until(s.Peak+s.Detect+s.Spread+s.After, arrival)
		r.out.After = r.end()
	}
	_ = arrival
	r.out.Open = r.out.Requests - r.out.Answered - r.out.GivenUp
	r.out.Drained = -1
	if r.clear >= 0 {
		r.out.Drained = r.clear - s.Peak
	}
	// Without new requests all that are open end, or one was lost on its way in here.
	out := r.out
	r.tell()
	r.until(never, never)
	if left := r.out.Requests - r.out.Answered - r.out.GivenUp; left != 0 {
		return out, fmt.Errorf("the simulation lost %d requests: a bug in it", left)
	}
	return out, nil
}

// begin starts a phase.
func (r *run) begin() {
	r.latency = hdrhistogram.New(1, 600_000_000, 3) // microseconds
	r.phase, r.began = Phase{}, r.now
	for _, s := range append(append([]*station(nil), r.nodes...), r.databases...) {
		s.busy = 0
	}
}

// end closes it and starts the next.
func (r *run) end() Phase {
	p := r.phase
	share := func(all []*station) float64 {
		var used, had float64
		for i, s := range all {
			if !r.gone(i) {
				used, had = used+s.busy, had+float64(s.cores)*(r.now-r.began)
			}
		}
		return used / had
	}
	p.NodeBusy, p.DatabaseBusy = share(r.nodes), share(r.databases)
	p.Mean, p.P50, p.P99 = r.latency.Mean()/1e6, float64(r.latency.ValueAtQuantile(50))/1e6, float64(r.latency.ValueAtQuantile(99))/1e6
	r.begin()
	return p
}

// gone: a region does not serve any more.
func (r *run) gone(region int) bool { return r.lost && region == r.Regions-1 }

// until runs to a time, from an arrival that is due to one that is.
func (r *run) until(end, arrival float64) float64 {
	for {
		at, which := arrival, 0
		if len(r.heap) > 0 && r.heap[0].at < at {
			at, which = r.heap[0].at, 1
		}
		if t := r.provider.next(); t < at {
			at, which = t, 2
		}
		if t := r.patience.next(); t < at {
			at, which = t, 3
		}
		if at >= end {
			r.pass(end)
			return arrival
		}
		r.pass(at)
		switch which {
		case 0:
			r.out.Requests++
			r.send(&client{replay: r.rng.Float64() < r.Replays})
			arrival += r.rng.ExpFloat64() / r.Rate
		case 1:
			switch e := heap.Pop(&r.heap).(event); {
			case e.c != nil:
				r.again(e.c)
			default:
				r.leave(e.st, e.v)
			}
		case 2:
			if v := r.provider.pop(); !r.gone(v.region) {
				v.stage = atSettle
				r.enter(v)
			}
		case 3:
			if v := r.patience.pop(); !v.c.done && v.try == v.c.tries && !r.pending(v) {
				r.again(v.c)
			}
		}
	}
}

// pending: a client that sent to the lost region is among those who come again at once
// when it is known.
func (r *run) pending(v *visit) bool { return r.gone(v.region) && !r.known }

// pass lets time go by.
func (r *run) pass(to float64) {
	for i := range r.nodes {
		r.nodes[i].busy += float64(r.nodes[i].taken) * (to - r.now)
		r.databases[i].busy += float64(r.databases[i].taken) * (to - r.now)
	}
	r.now = to
}

// send sends a client's request once more, to a region that it believes to be there.
func (r *run) send(c *client) {
	regions := r.Regions
	if r.known {
		regions--
	}
	c.tries++
	c.region = r.rng.IntN(regions)
	v := &visit{c: c, sent: r.now, region: c.region, try: c.tries}
	r.patience.add(r.now, v)
	if r.gone(v.region) {
		r.unanswered = append(r.unanswered, c)
		return
	}
	r.enter(v)
}

// again sends it, or the client gives up.
func (r *run) again(c *client) {
	switch {
	case c.done:
	case c.tries >= r.Tries:
		c.done = true
		r.out.GivenUp++
	default:
		r.send(c)
	}
}

// enter goes to where a visit is served next.
func (r *run) enter(v *visit) {
	if v.stage == atProvider {
		r.provider.add(r.now, v)
		return
	}
	if v.stage == answered {
		// An answer after the client's last word to others is still its answer.
		if !v.c.done {
			v.c.done = true
			r.out.Answered++
			_ = r.latency.RecordValue(max(1, int64((r.now-v.sent)*1e6))) // above ten minutes nothing is recorded
		}
		return
	}
	s := r.nodes[v.region]
	if v.stage == atClaim || v.stage == atSettle {
		s = r.databases[v.region]
	}
	if s.taken == s.cores {
		s.queue = append(s.queue, v)
		r.phase.Waiting = max(r.phase.Waiting, s.waiting())
		return
	}
	r.serve(s, v)
}

func (r *run) serve(s *station, v *visit) {
	s.taken++
	heap.Push(&r.heap, event{at: r.now + r.rng.ExpFloat64()*r.holds(v), v: v, st: s})
}

// holds is how long a visit holds a core where it is, on average.
func (r *run) holds(v *visit) float64 {
	c := r.Costs
	switch {
	case v.c.replay && v.stage == atNode:
		return c.NodeReplay / 1e6
	case v.c.replay:
		return c.DatabaseReplay / 1e6
	case v.stage == atNode || v.stage == atReply:
		return c.NodeCharge / 2e6
	default:
		return c.DatabaseCharge / 2e6
	}
}

// leave gives a core to the next one.
func (r *run) leave(s *station, v *visit) {
	s.taken--
	if r.gone(v.region) {
		return
	}
	if s.waiting() > 0 {
		r.serve(s, s.pop())
	}
	if v.stage++; v.c.replay && v.stage > atClaim {
		v.stage = answered
	}
	r.enter(v)
	if r.known && r.clear < 0 && r.now >= r.Simulation.Peak+r.Detect+r.Spread && r.idle() {
		r.clear = r.now
	}
}

// idle: nobody waits for a core.
func (r *run) idle() bool {
	for i := range r.nodes {
		if !r.gone(i) && r.nodes[i].waiting()+r.databases[i].waiting() > 0 {
			return false
		}
	}
	return true
}

// lose takes the last region away, with all that it has.
func (r *run) lose() {
	r.lost = true
	last := r.Regions - 1
	seen := map[*client]bool{}
	take := func(v *visit) {
		if v != nil && v.region == last && !v.c.done && v.try == v.c.tries && !seen[v.c] {
			seen[v.c] = true
			r.unanswered = append(r.unanswered, v.c)
		}
	}
	for _, s := range []*station{r.nodes[last], r.databases[last]} {
		for _, v := range s.queue[s.head:] {
			take(v)
		}
		s.queue, s.head = nil, 0
	}
	kept := r.heap[:0]
	for _, e := range r.heap {
		if e.v != nil && e.v.region == last {
			take(e.v)
			e.st.taken--
			continue
		}
		kept = append(kept, e)
	}
	r.heap = kept
	heap.Init(&r.heap)
	for _, t := range r.provider.all[r.provider.head:] {
		take(t.v)
	}
}

// tell has everybody know what is lost, and all that was not answered come again.
func (r *run) tell() {
	r.known = r.lost
	for _, c := range r.unanswered {
		heap.Push(&r.heap, event{at: r.now + r.rng.Float64()*r.Spread, c: c})
	}
	r.unanswered = nil
}

// ErlangC is the share of arrivals that wait, with exponential times, where so many cores
// are offered so many cores' worth of work.
func ErlangC(cores int, offered float64) float64 {
	if offered >= float64(cores) {
		return 1
	}
	b := 1.0 // Erlang's loss formula, by its recursion
	for n := 1; n <= cores; n++ {
		b = offered * b / (float64(n) + offered*b)
	}
	return b / (1 - offered/float64(cores)*(1-b))
}
