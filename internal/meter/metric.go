package meter

import (
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// Kind is the type of a metric: counter, gauge or histogram.
type Kind uint8

// The kinds.
const (
	// KindCounter only grows while a process lives.
	KindCounter Kind = iota + 1
	// KindGauge is a present value.
	KindGauge
	// KindHistogram counts durations or sizes by buckets.
	KindHistogram
)

func (k Kind) String() string {
	return [...]string{KindCounter: "counter", KindGauge: "gauge", KindHistogram: "histogram"}[k]
}

// Metric is one entry of the catalogue. Only this package makes them, so every
// registered metric is in the catalogue.
type Metric struct {
	name    string
	kind    Kind
	unit    string
	labels  []attribute.Key
	buckets []float64
	means   string
	act     string
}

// Name is OpenTelemetry's, as in "homeward.requests".
func (m *Metric) Name() string { return m.name }

// Kind is the metric's kind.
func (m *Metric) Kind() Kind { return m.kind }

// Unit is in UCUM, as OpenTelemetry has it: "s", "By", "{request}".
func (m *Metric) Unit() string { return m.unit }

// Labels are the names of its attributes, in the order of the values passed to Add and
// Record.
func (m *Metric) Labels() []attribute.Key { return slices.Clone(m.labels) }

// Buckets are the upper bounds of a histogram.
func (m *Metric) Buckets() []float64 { return slices.Clone(m.buckets) }

// Means describes the metric in a sentence or two.
func (m *Metric) Means() string { return m.means }

// Act is what an operator does when the metric moves.
func (m *Metric) Act() string { return m.act }

// Prometheus is the name in the text format, without the _bucket, _sum and _count of a
// histogram.
func (m *Metric) Prometheus() string {
	name := strings.ReplaceAll(m.name, ".", "_")
	switch m.unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if m.kind == KindCounter {
		name += "_total"
	}
	return name
}

// Section is a part of the catalogue.
type Section struct {
	Title   string
	Metrics []*Metric
}

// Catalogue lists every metric, by section.
func Catalogue() []Section {
	all := make([]Section, len(sections))
	for i, s := range sections {
		all[i] = Section{s.Title, slices.Clone(s.Metrics)}
	}
	return all
}

// All returns every metric.
func All() []*Metric {
	var all []*Metric
	for _, s := range sections {
		all = append(all, s.Metrics...)
	}
	return all
}

func (s *Section) add(m *Metric) *Metric {
	s.Metrics = append(s.Metrics, m)
	return m
}

func (s *Section) counter(name, unit, means, act string, labels ...attribute.Key) *Metric {
	return s.add(&Metric{name: name, kind: KindCounter, unit: unit, labels: labels, means: means, act: act})
}

func (s *Section) gauge(name, unit, means, act string, labels ...attribute.Key) *Metric {
	return s.add(&Metric{name: name, kind: KindGauge, unit: unit, labels: labels, means: means, act: act})
}

func (s *Section) histogram(name, unit string, buckets []float64, means, act string, labels ...attribute.Key) *Metric {
	return s.add(&Metric{name: name, kind: KindHistogram, unit: unit, labels: labels, buckets: buckets, means: means, act: act})
}

// maxLabels is how many labels a metric may have.
const maxLabels = 4
