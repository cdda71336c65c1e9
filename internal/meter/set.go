package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Set holds the instruments of one node, one for each metric of the catalogue. It is safe
// for concurrent use. A nil *Set, and the nil instruments that it returns, record nothing
// and cost a comparison.
type Set struct {
	counters   map[*Metric]*Counter
	histograms map[*Metric]*Histogram
	observed   map[*Metric]metric.Float64Observable
	meter      metric.Meter

	mu    sync.Mutex
	ended []metric.Registration
}

// New makes the instruments with the meters of p. The caller must call End.
func New(p metric.MeterProvider) (*Set, error) {
	s := &Set{
		counters: map[*Metric]*Counter{}, histograms: map[*Metric]*Histogram{}, observed: map[*Metric]metric.Float64Observable{},
		meter: p.Meter("github.com/homeward-io/homeward"),
	}
	var errs []error
	for _, m := range All() {
		errs = append(errs, s.make(m))
	}
	errs = append(errs, s.Observe(s.report))
	return s, errors.Join(errs...)
}

func (s *Set) make(m *Metric) (err error) {
	unit, help := metric.WithUnit(m.unit), metric.WithDescription(m.means)
	switch m.kind {
	case KindHistogram:
		h := &Histogram{metric: m}
		h.instrument, err = s.meter.Float64Histogram(m.name, unit, help, metric.WithExplicitBucketBoundaries(m.buckets...))
		s.histograms[m] = h
	case KindCounter:
		s.counters[m] = &Counter{metric: m}
		s.observed[m], err = s.meter.Float64ObservableCounter(m.name, unit, help)
	case KindGauge:
		s.observed[m], err = s.meter.Float64ObservableGauge(m.name, unit, help)
	}
	return err
}

// End stops the reports.
func (s *Set) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.ended {
		_ = r.Unregister() // it never fails twice
	}
	s.ended = nil
}

// Counter returns the counter of m, which must be one.
func (s *Set) Counter(m *Metric) *Counter {
	if s == nil {
		return nil
	}
	return of(s.counters, m)
}

// Histogram returns the histogram of m, which must be one.
func (s *Set) Histogram(m *Metric) *Histogram {
	if s == nil {
		return nil
	}
	return of(s.histograms, m)
}

func of[T any](all map[*Metric]T, m *Metric) T {
	one, ok := all[m]
	if !ok {
		panic(fmt.Sprintf("meter: %s is a %v", m.name, m.kind)) // a bug that shows at the first run
	}
	return one
}

// Observe registers f to be called at each collection of the metrics, to record gauges
// and counters that another component keeps. f must be quick and call no other process.
func (s *Set) Observe(f func(o *Observer)) error {
	if s == nil {
		return nil
	}
	all := make([]metric.Observable, 0, len(s.observed))
	for o := range maps.Values(s.observed) {
		all = append(all, o)
	}
	registration, err := s.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		f(&Observer{s, o})
		return nil
	}, all...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, registration)
	return nil
}

// report reports the counters that are kept here.
func (s *Set) report(o *Observer) {
	for m, c := range s.counters {
		c.rank(time.Now())
		c.cells.each(func(_ values, cell *cell) { o.o.ObserveFloat64(s.observed[m], float64(cell.n.Load()), cell.labels) })
	}
}

// Observer records the values of one collection.
type Observer struct {
	s *Set
	o metric.Observer
}

// Is records the value of m, a gauge or a counter that another component keeps.
func (o *Observer) Is(m *Metric, value float64, labels ...string) {
	o.o.ObserveFloat64(of(o.s.observed, m), value, metric.WithAttributeSet(m.attributes(key(labels))))
}

// values are the values of a metric's labels, in their order.
type values [maxLabels]string

func key(labels []string) (v values) {
	copy(v[:], labels)
	return v
}

func (m *Metric) attributes(v values) attribute.Set {
	all := make([]attribute.KeyValue, len(m.labels))
	for i, l := range m.labels {
		all[i] = l.String(v[i])
		if l == Status {
			var code int
			if _, err := fmt.Sscan(v[i], &code); err == nil {
				all[i] = l.Int(code) // as the conventions have it
			}
		}
	}
	return attribute.NewSet(all...)
}

// maxSeries bounds the series of a metric: far more than its labels have values, and
// fewer than the 2,000 beyond which OpenTelemetry's SDK merges series. Further ones are
// counted as [Other].
const maxSeries = 1000

// table has the series of a metric by the values of its labels.
type table[T any] struct {
	mu     sync.Mutex
	series map[values]T
}

func (t *table[T]) get(v values, m *Metric, fresh func(attribute.Set) T) T {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one, ok := t.series[v]; ok {
		return one
	}
	if len(t.series) >= maxSeries {
		for i := range m.labels {
			v[i] = Other
		}
		if one, ok := t.series[v]; ok {
			return one
		}
	}
	if t.series == nil {
		t.series = map[values]T{}
	}
	t.series[v] = fresh(m.attributes(v))
	return t.series[v]
}

func (t *table[T]) each(see func(values, T)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for v, one := range t.series {
		see(v, one)
	}
}

// remove forgets series.
func (t *table[T]) remove(those func(values) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.series, func(v values, _ T) bool { return those(v) })
}

// Counter is a counter. It is safe for concurrent use.
type Counter struct {
	metric *Metric
	cells  table[*cell]
	tenants
}

type cell struct {
	n      atomic.Int64
	labels metric.ObserveOption
}

// Add adds n, with the values of the metric's labels. If the first is the tenant, only
// the tenants with the most traffic keep their name.
func (c *Counter) Add(n int64, labels ...string) {
	if c == nil {
		return
	}
	v := key(labels)
	if len(c.metric.labels) > 0 && c.metric.labels[0] == Tenant {
		v[0] = c.tenants.label(v[0])
	}
	c.cells.get(v, c.metric, newCell).n.Add(n)
}

func newCell(labels attribute.Set) *cell { return &cell{labels: metric.WithAttributeSet(labels)} }

// rank ranks the tenants of a counter anew when that is due.
func (c *Counter) rank(now time.Time) {
	if c.tenants.rank(now) {
		c.cells.remove(func(v values) bool { return v[0] != Other && !c.tenants.has(v[0]) })
	}
}

// Histogram is a histogram. It is safe for concurrent use.
type Histogram struct {
	metric     *Metric
	instrument metric.Float64Histogram
	series     table[[]metric.RecordOption]
}

// Record records a value. The trace of ctx's span may become an exemplar.
func (h *Histogram) Record(ctx context.Context, value float64, labels ...string) {
	if h == nil {
		return
	}
	h.instrument.Record(ctx, value, h.series.get(key(labels), h.metric, newRecord)...)
}

func newRecord(labels attribute.Set) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(labels)}
}

// Took records a duration in seconds.
func (h *Histogram) Took(ctx context.Context, d time.Duration, labels ...string) {
	h.Record(ctx, d.Seconds(), labels...)
}
