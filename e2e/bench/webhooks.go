package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	// noticeSecret signs the provider's webhooks.
	noticeSecret = "whsec_YmVuY2htYXJrIG9mIHRoZSB3ZWJob29r"
	// noticeSize is the body's, in bytes: what an event of a large provider has.
	noticeSize = 2 << 10
	// toldCharges is how many charges the webhooks of a run tell of.
	toldCharges = 200
	// floodConns is how many connections they come on. At 2,000 a second each has
	// 64 ms for one before the next is late.
	floodConns = 2 * middle
	// leastKept is the share of the webhooks sent that must be kept in their window:
	// all, but for those that cross its ends.
	leastKept = 0.98
	// mostBeside is how much slower a charge at the 99th percentile may be beside the
	// flood, though the machine is shared with both generators.
	mostBeside = 2
	// backlogTime bounds how long the rest is waited for, backlogPoll is how often.
	backlogTime = 5 * time.Minute
	backlogPoll = 20 * time.Millisecond
)

// floodSpec is one run of webhooks.
type floodSpec struct {
	Addr string
	// Run begins the events' ids.
	Run          string
	Rate         float64 // per second
	Warm, Window time.Duration
}

// floodResult is what came of it.
type floodResult struct {
	// Sent, Kept and Busy are those of the window: sent, answered 200, answered 503.
	Sent, Kept, Busy int64
	// Latency of those that were kept, in nanoseconds, from when they were due.
	Latency *hdrhistogram.Snapshot
	// Acknowledged are the numbers of all that were answered 200, warm-up included.
	Acknowledged []int64
}

// told is a charge as its webhooks tell of it.
type told struct {
	ID       string `json:"id"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Provider struct {
		Reference string `json:"reference"`
	} `json:"provider"`
}

// noticeID is the id of the n-th event of a run.
func noticeID(run string, n int64) string { return run + "-" + strconv.FormatInt(n, 10) }

// body is one event about c.
func (c told) body(id string) []byte {
	b := fmt.Appendf(make([]byte, 0, noticeSize),
		`{"id":%q,"type":"charge.succeeded","created":%d,"data":{"id":%q,"status":"succeeded","reference":%q,"amount":%d,"currency":%q},"rest":"`,
		id, time.Now().Unix(), c.Provider.Reference, c.ID, c.Amount, c.Currency)
	for len(b) < noticeSize-len(`"}`) {
		b = append(b, '.')
	}
	return append(b, `"}`...)
}

// flood sends webhooks.
type flood struct {
	floodSpec
	pace    generator
	signer  *standardwebhooks.Webhook
	charges []told
	sent    atomic.Int64
	busy    atomic.Int64
	mu      sync.Mutex
	acked   []int64
}

// floodRole reads a floodSpec, makes the charges to tell of, prints an empty line, and
// after the flood a floodResult.
func floodRole(ctx context.Context, _ []string, in io.Reader, out io.Writer) error {
	f := &flood{}
	err := json.NewDecoder(in).Decode(&f.floodSpec)
	if err != nil {
		return err
	}
	uuid.EnableRandPool()
	if f.signer, err = standardwebhooks.NewWebhook(noticeSecret); err != nil {
		return err
	}
	wires := make([]*wire, floodConns)
	for i := range wires {
		if wires[i], err = dial(f.Addr); err != nil {
			return err
		}
		defer wires[i].close()
	}
	if err := f.prime(wires[0]); err != nil {
		return fmt.Errorf("prime: %w", err)
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	result, err := f.run(ctx, wires)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

func (f *flood) prime(w *wire) error {
	for range toldCharges {
		key, err := claim.Stamp(1, nil)
		if err != nil {
			return err
		}
		if err := expect(w, key, false); err != nil {
			return err
		}
		var c told
		if err := json.Unmarshal(w.body, &c); err != nil {
			return err
		}
		f.charges = append(f.charges, c)
	}
	return nil
}

func (f *flood) run(ctx context.Context, wires []*wire) (floodResult, error) {
	f.pace.Rate = f.Rate
	f.pace.begun = time.Now()
	f.pace.from = f.pace.begun.Add(f.Warm)
	f.pace.until = f.pace.from.Add(f.Window)
	total, histograms := newHistogram(), make([]*hdrhistogram.Histogram, len(wires))
	var next atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for i, w := range wires {
		histograms[i] = newHistogram()
		all.Go(func() error {
			for {
				due, more, err := f.pace.due(ctx)
				if err != nil || !more {
					return err
				}
				if err := f.send(w, next.Add(1), due, histograms[i]); err != nil {
					return err
				}
			}
		})
	}
	if err := all.Wait(); err != nil {
		return floodResult{}, err
	}
	for _, h := range histograms {
		total.Merge(h)
	}
	return floodResult{
		Sent: f.sent.Load(), Kept: total.TotalCount(), Busy: f.busy.Load(), Latency: total.Export(), Acknowledged: f.acked,
	}, nil
}

// send sends the n-th webhook, which was due at a time.
func (f *flood) send(w *wire, n int64, due time.Time, h *hdrhistogram.Histogram) error {
	id, at := noticeID(f.Run, n), time.Now()
	body := f.charges[n%int64(len(f.charges))].body(id)
	signature, err := f.signer.Sign(id, at, body)
	if err != nil {
		return err
	}
	request := fmt.Appendf(make([]byte, 0, noticeSize+512),
		"POST /v1/webhooks/simulator HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s: %s\r\n%s: %d\r\n%s: %s\r\n\r\n",
		f.Addr, len(body), standardwebhooks.HeaderWebhookID, id, standardwebhooks.HeaderWebhookTimestamp, at.Unix(), standardwebhooks.HeaderWebhookSignature, signature)
	if err := w.conn.SetDeadline(time.Now().Add(replyTime)); err != nil {
		return err
	}
	if _, err := w.conn.Write(append(request, body...)); err != nil {
		return err
	}
	status, _, err := w.read()
	// Those due in the window are counted, wherever their replies fall.
	within := !due.Before(f.pace.from)
	if within {
		f.sent.Add(1)
	}
	switch {
	case err != nil:
		return err
	case status == http.StatusServiceUnavailable:
		if within {
			f.busy.Add(1)
		}
		return nil
	case status != http.StatusOK:
		return fmt.Errorf("webhook %s: status %d: %s", id, status, w.body)
	}
	f.mu.Lock()
	f.acked = append(f.acked, n)
	f.mu.Unlock()
	if now := time.Now(); within && now.Before(f.pace.until) {
		return h.RecordValue(int64(now.Sub(due)))
	}
	return nil
}

// shelf answers what became of notices.
type shelf struct{ deployment.Store }

// question names the notices of a run that were acknowledged.
type question struct {
	Run          string
	Acknowledged []int64
}

// state is the answer.
type state struct {
	// Lost are not in the store.
	Lost []string
	// Pending wait to be acted on, Parked for a person.
	Pending, Parked int
}

func (s shelf) serve(mux *http.ServeMux) {
	mux.HandleFunc("POST /notices", func(w http.ResponseWriter, r *http.Request) {
		var q question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		got, err := s.state(r.Context(), q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(got) // a reader that is gone has given up
	})
}

func (s shelf) state(ctx context.Context, q question) (got state, err error) {
	here := regionNames[0]
	d, err := s.Queue(outbox.Notices).Depth(ctx, here)
	if err != nil {
		return got, err
	}
	got.Pending, got.Parked = d.Pending, d.Parked
	for _, n := range q.Acknowledged {
		id := notice.ID("simulator", noticeID(q.Run, n))
		_, found, err := s.Notice(ctx, here, id)
		if err != nil {
			return got, err
		}
		if !found {
			got.Lost = append(got.Lost, id)
		}
	}
	return got, nil
}

// ask asks a node at its control address.
func ask(ctx context.Context, control string, q question) (got state, err error) {
	text, err := json.Marshal(q)
	if err != nil {
		return got, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+control+"/notices", bytes.NewReader(text))
	if err != nil {
		return got, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return got, fmt.Errorf("control: status %d: %s", res.StatusCode, text)
	}
	return got, json.NewDecoder(res.Body).Decode(&got)
}

// orchestrateWebhooks measures charges beside a flood of webhooks, on both stores.
func orchestrateWebhooks(ctx context.Context, o options, out io.Writer) (err error) {
	r := newReport(o, out)
	dir, err := os.MkdirTemp(o.dir, "homeward-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if strings.HasPrefix("webhooks/embedded", o.only) {
		if err := compareFlood(ctx, r, "webhooks/embedded", "-dir="+dir); err != nil {
			return fmt.Errorf("webhooks/embedded: %w", err)
		}
	}
	if strings.HasPrefix("webhooks/sql", o.only) {
		err := onDatabase(ctx, o, regionNames[:1], func(s *localdb.Server) error { return floodOn(ctx, r, s, dir) })
		if err != nil {
			return fmt.Errorf("webhooks/sql: %w", err)
		}
	}
	return r.finish()
}

func floodOn(ctx context.Context, r *report, s *localdb.Server, dir string) error {
	r.on(s)
	l, err := newLedger(ctx, s, "bench_webhooks")
	if err != nil {
		return err
	}
	return compareFlood(ctx, r, "webhooks/sql", "-dir="+dir, "-db="+l.url)
}

// compareFlood measures one node's charges with and without a flood, in turns.
func compareFlood(ctx context.Context, r *report, name string, args ...string) (err error) {
	sim, err := start(ctx, "simulator")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.stop()) }()
	sut, err := start(ctx, "homeward", append(args, "-psp="+sim.Serving[0])...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sut.stop()) }()

	c := comparison{
		name: name, title: fmt.Sprintf("%.0f charges/s, without and with %.0f webhooks/s", r.rate, r.notices), conns: middle,
		// No role: memory is not judged, the checks after each flood are in it.
		sides: []side{{name: "quiet"}, {name: "flooded"}},
	}
	series := make([][]figures, len(c.sides))
	var floods []floodFigures
	for run := range r.runs {
		for i := range c.sides {
			if run%2 == 1 {
				i = len(c.sides) - 1 - i
			}
			spec := loadSpec{
				Addr: sut.Serving[0], Conns: middle, Rate: r.rate, Stamped: true, Warm: r.warm, Window: r.paced, Control: sut.Control,
			}
			if r.profile != "" && run == r.runs-1 {
				spec.Profile = filepath.Join(r.profile, fmt.Sprintf("%s-%s.pprof", strings.ReplaceAll(name, "/", "-"), c.sides[i].name))
			}
			var charges loadResult
			if i == 0 {
				charges, err = load(ctx, spec)
			} else {
				var f floodFigures
				charges, f, err = beside(ctx, spec, floodSpec{
					Addr: spec.Addr, Run: fmt.Sprintf("%s-%d", uuid.NewString()[:8], run), Rate: r.notices, Warm: spec.Warm, Window: spec.Window,
				})
				floods = append(floods, f)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.sides[i].name, err)
			}
			series[i] = append(series[i], newFigures(charges))
		}
	}
	r.add(c, series)
	r.addFloods(name, floods)
	r.atMost(name+", charges, flooded to quiet", tails, series[0], series[1], mostBeside)
	return nil
}

// floodFigures is one flood, boiled down.
type floodFigures struct {
	rate, busy float64 // answered 200 and 503, per second
	p50, p99   time.Duration
	pending    int           // not acted on when the flood ended
	rest       time.Duration // until they were
}

// beside loads a node with charges and webhooks at once, and waits until all webhooks
// are acted on.
func beside(ctx context.Context, charges loadSpec, notices floodSpec) (made loadResult, f floodFigures, err error) {
	cmd, err := command(ctx, "flood")
	if err != nil {
		return made, f, err
	}
	text, err := json.Marshal(notices)
	if err != nil {
		return made, f, err
	}
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return made, f, err
	}
	if err := cmd.Start(); err != nil {
		return made, f, err
	}
	var result floodResult
	ready := make([]byte, 1)
	if _, err = io.ReadFull(out, ready); err == nil {
		made, err = load(ctx, charges)
	}
	if err == nil {
		err = json.NewDecoder(out).Decode(&result)
	}
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if werr := cmd.Wait(); err != nil || werr != nil {
		return made, f, errors.Join(err, werr)
	}
	h := hdrhistogram.Import(result.Latency)
	f = floodFigures{
		rate: float64(result.Kept) / notices.Window.Seconds(), busy: float64(result.Busy) / notices.Window.Seconds(),
		p50: time.Duration(h.ValueAtQuantile(50)), p99: time.Duration(h.ValueAtQuantile(99)),
	}
	return made, f, f.drain(ctx, charges.Control, question{notices.Run, result.Acknowledged})
}

// drain waits until nothing is left to act on, and fails if what was acknowledged is
// not there or could not be acted on.
func (f *floodFigures) drain(ctx context.Context, control string, q question) error {
	began := time.Now()
	for {
		got, err := ask(ctx, control, question{})
		switch {
		case err != nil:
			return err
		case got.Parked > 0:
			return fmt.Errorf("%d webhooks were parked, of charges that are known", got.Parked)
		case f.rest == 0 && f.pending == 0:
			f.pending = got.Pending
		}
		f.rest = time.Since(began)
		if got.Pending == 0 {
			break
		}
		if f.rest > backlogTime {
			return fmt.Errorf("%d webhooks were not acted on within %v", got.Pending, backlogTime)
		}
		if err := sleepUntil(ctx, time.Now().Add(backlogPoll)); err != nil {
			return err
		}
	}
	got, err := ask(ctx, control, q)
	if err == nil && len(got.Lost) > 0 {
		err = fmt.Errorf("%d of %d webhooks were acknowledged and lost, %s first", len(got.Lost), len(q.Acknowledged), got.Lost[0])
	}
	return err
}

// addFloods prints the webhooks of a case and takes its target.
func (r *report) addFloods(name string, floods []floodFigures) {
	of := func(value func(floodFigures) float64) spread { return spreadOf(floods, value) }
	kept := of(func(f floodFigures) float64 { return f.rate })
	busy := of(func(f floodFigures) float64 { return f.busy })
	p50, p99 := of(func(f floodFigures) float64 { return float64(f.p50) }), of(func(f floodFigures) float64 { return float64(f.p99) })
	pending := of(func(f floodFigures) float64 { return float64(f.pending) })
	rest := of(func(f floodFigures) float64 { return f.rest.Seconds() })
	r.printf("  webhooks: %.0f/s kept (%.0f–%.0f), %.0f/s told to come again; p50 %s ms, p99 %s ms (%s–%s)\n",
		kept.median, kept.min, kept.max, busy.median, millis(p50.median), millis(p99.median), millis(p99.min), millis(p99.max))
	r.printf("  not acted on when the flood ended: %.0f (%.0f–%.0f), all of them %.1f s later (%.1f–%.1f)\n",
		pending.median, pending.min, pending.max, rest.median, rest.min, rest.max)
	for _, f := range floods {
		fmt.Fprintf(&r.bench, "Benchmark%s/webhooks 1 %.0f kept/s %.0f busy/s %d p50-ns %d p99-ns %d pending\n",
			strings.ReplaceAll(name, "/", "_"), f.rate, f.busy, f.p50, f.p99, f.pending)
	}
	r.alone(name+": webhooks kept", kept, aSecond, true, leastKept*r.notices)
}
