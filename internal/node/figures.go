package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	// figuresEvery is how often the node queries the store for gauges: often enough for
	// an alert on a minute, at the cost of some ten small queries.
	figuresEvery = 15 * time.Second
	// figuresTime bounds one round.
	figuresTime = 10 * time.Second
	// figuresRows is how many rows of a queue, or unknown claims, are read one by one.
	figuresRows = 1000
	// reportedFor is how long figures are reported: longer than the second in line takes
	// for the next ones, see [outbox.Rounds].
	reportedFor = 24 * figuresEvery
	// stuckAfter is how long a lease must have ended while recovery was due.
	stuckAfter = time.Minute
	// limboRows is how many parked notices are read to find those in LIMBO, which are few: they page.
	limboRows = 10 * figuresRows
	// limboPrefix begins the reason with which notice.Processor parks in LIMBO.
	limboPrefix = "LIMBO"
)

// figures are the gauges of a region's rows. One node of the region queries them
// periodically, never a scrape, at a cost that does not depend on the number of rows.
// While a region is lost, one node of the other regions queries its figures.
type figures struct {
	store  deployment.Store
	region string
	// lost are the homes without nodes that can report. inTurn reports whether it is this node's
	// turn.
	lost     func() []string
	inTurn   func(home string) bool
	failures *meter.Counter
	trouble  trouble
	// deputy is trouble with rows of lost regions, which may be lost with them.
	deputy trouble

	// clock is measured with each read of the row of restores.
	clock *storeClock

	mu sync.Mutex
	// homes are the figures of each home that this node counts.
	homes map[string]counted
}

// counted are the figures of a home. They are not there where it is another node's turn.
type counted struct {
	at      time.Time
	figures []figure
}

type figure struct {
	of     *meter.Metric
	value  float64
	labels []string
}

func newFigures(n *Node) *figures {
	return &figures{
		store: n.c.Store, region: n.c.Region, lost: n.outages.All, inTurn: n.roundsOf(), clock: &n.clock, failures: n.c.Meters.Counter(meter.CollectFailures),
		trouble: trouble{log: n.log, began: "the figures of metrics cannot be read from the store; they grow old", over: "the figures of metrics can be read from the store again"},
		deputy:  trouble{log: n.log, began: "the figures of metrics of a lost region cannot be read", over: "the figures of metrics of lost regions can be read again"},
		homes:   map[string]counted{},
	}
}

// collectFigures starts the rounds.
func (n *Node) collectFigures() error {
	if n.c.Meters == nil {
		return nil
	}
	f := newFigures(n)
	n.background.every(n.log, cmp.Or(n.c.FiguresEvery, figuresEvery), f.round)
	return n.c.Meters.Observe(f.report)
}

// round queries the store.
func (f *figures) round(ctx context.Context) {
	if f.inTurn(f.region) {
		err := f.own(ctx)
		if ctx.Err() != nil {
			return
		}
		if f.trouble.note(err); err != nil {
			f.failures.Add(1)
		}
	}
	if err := f.deputise(ctx); ctx.Err() == nil {
		f.deputy.note(err)
	}
}

// own asks for what this node's region has.
func (f *figures) own(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, figuresTime)
	defer cancel()
	return f.count(ctx, f.region)
}

// deputise asks for what lost regions have, and forgets those that are back.
func (f *figures) deputise(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, figuresTime)
	defer cancel()
	lost := f.lost()
	f.mu.Lock()
	maps.DeleteFunc(f.homes, func(home string, _ counted) bool { return home != f.region && !slices.Contains(lost, home) })
	f.mu.Unlock()
	var errs []error
	for _, home := range lost {
		if home == f.region || !f.inTurn(home) {
			continue
		}
		if err := f.count(ctx, home); err != nil {
			errs = append(errs, fmt.Errorf("region %s: %w", home, err))
		}
	}
	return errors.Join(errs...)
}

// brakes are those of the deployment, with the nodes' own figures.
func (f *figures) brakes(ctx context.Context, record func(*meter.Metric, float64, ...string)) error {
	brakes, _, err := f.store.Brakes(ctx)
	if err != nil {
		return err
	}
	for _, b := range brakes {
		record(meter.BrakeHeld, flag(b.Held != nil), cmp.Or(b.Provider, "all"))
	}
	if !slices.ContainsFunc(brakes, func(b notice.Brake) bool { return b.Provider == notice.AllProviders }) {
		record(meter.BrakeHeld, 0, "all")
	}
	return nil
}

// count counts the rows of a home.
func (f *figures) count(ctx context.Context, home string) error {
	var figures []figure
	record := func(of *meter.Metric, value float64, labels ...string) {
		figures = append(figures, figure{of, value, labels})
	}
	now := f.clock.now()
	if home == f.region {
		if err := f.brakes(ctx, record); err != nil {
			return err
		}
	}
	unknown, err := f.store.Unknown(ctx, home, true, figuresRows)
	if err != nil {
		return err
	}
	record(meter.UnknownOpen, float64(len(unknown)), home)
	age := time.Duration(0)
	for i := range unknown {
		age = max(age, now.Sub(unknown[i].FirstUse))
	}
	record(meter.UnknownAge, age.Seconds(), home)
	for _, q := range outbox.AllQueues() {
		if err := f.queue(ctx, home, q, now, record); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.homes[home] = counted{time.Now(), figures}
	return nil
}

// kinds are those of a queue's rows.
var kinds = map[outbox.Queue][]outbox.Kind{
	outbox.ProviderCalls: {outbox.KindProviderCall},
	outbox.Expiries:      {outbox.KindExpiry, outbox.KindRefund},
	outbox.Notices:       {outbox.KindNotice},
	outbox.Events:        {outbox.KindNATS, outbox.KindWebhook, outbox.KindLog},
}

func (f *figures) queue(ctx context.Context, home string, q outbox.Queue, now time.Time, record func(*meter.Metric, float64, ...string)) error {
	store := f.store.Queue(q)
	depth, err := store.Depth(ctx, home)
	if err != nil {
		return err
	}
	record(meter.OutboxPending, float64(depth.Pending), home, string(q))
	lag, parked, limbo, stuck := map[outbox.Kind]time.Duration{}, map[outbox.Kind]int{}, 0, 0
	// Read rows only if a gauge needs them.
	if depth.Due > 0 {
		rows, err := store.Waiting(ctx, home, figuresRows)
		if err != nil {
			return err
		}
		for i := range rows {
			over := now.Sub(rows[i].Due)
			lag[rows[i].Kind] = max(lag[rows[i].Kind], over)
			if over >= stuckAfter {
				stuck++
			}
		}
	}
	if depth.Parked > 0 {
		after := ""
		for read, more := 0, true; more; {
			rows, err := store.Parked(ctx, home, after, figuresRows)
			if err != nil {
				return err
			}
			for i := range rows {
				if after = rows[i].ID; read < figuresRows {
					parked[rows[i].Kind]++
				}
				if read++; strings.HasPrefix(rows[i].LastError, limboPrefix) && !notice.OfTests(after) { // a notice of a test tenant pages nobody
					limbo++
				}
			}
			more = q == outbox.Notices && len(rows) == figuresRows && read < limboRows
		}
	}
	for _, kind := range kinds[q] {
		record(meter.OutboxLag, lag[kind].Seconds(), home, string(q), string(kind))
		record(meter.OutboxParked, float64(parked[kind]), home, string(q), string(kind))
	}
	switch q {
	case outbox.ProviderCalls:
		record(meter.Stuck, float64(stuck), home)
	case outbox.Notices:
		record(meter.Limbo, float64(limbo), home)
	default:
	}
	return nil
}

// report records the latest figures, and their age.
func (f *figures) report(o *meter.Observer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ahead, ok := f.clock.offset(); ok {
		o.Is(meter.ClockOffset, ahead.Seconds())
	}
	for home, c := range f.homes {
		age := time.Since(c.at)
		if age >= reportedFor {
			continue // another node reports them once it is its turn
		}
		if home == f.region {
			o.Is(meter.Collected, age.Seconds())
		}
		for _, one := range c.figures {
			o.Is(one.of, one.value, one.labels...)
		}
	}
}
