package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/homeward-io/homeward/internal/meter"
)

// Metrics exports the metrics of a process's nodes: to scrapers, and to a collector if
// the environment asks for it. A nil *Metrics exports none.
type Metrics struct {
	p        Process
	registry *prometheus.Registry // nil if nothing is served
	push     bool
	file     string // of a batch
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup

	mu     sync.Mutex
	ending []func(context.Context) error
}

// OpenMetrics listens for scrapes on listen, host:port, "" for none, and prepares to push. It
// returns nil if neither is set. It contacts no collector. The caller must call Stop.
func OpenMetrics(ctx context.Context, p Process, listen string) (*Metrics, error) {
	off := strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true")
	m := &Metrics{p: p, push: wanted(os.Getenv, "METRICS")}
	if off || listen == "" && !m.push {
		return nil, nil
	}
	if err := p.checkMetrics(ctx); err != nil {
		return nil, err
	}
	if listen == "" {
		return m, nil
	}
	var err error
	if m.listener, err = net.Listen("tcp", listen); err != nil {
		return nil, err
	}
	m.registry = prometheus.NewRegistry()
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		// Without OpenMetrics there are no exemplars. A metric that cannot be exported
		// does not affect the others.
		EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelWarn),
	}))
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: scrapeTime, ReadTimeout: scrapeTime, WriteTimeout: scrapeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxScrapeHead, ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug)}
	m.served.Go(func() {
		if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
			p.Log.Error("the metrics listener has failed", "error", err)
		}
	})
	return m, nil
}

const (
	// maxScrapeHead is the longest head of a scrape, in bytes; net/http's default is 1 MiB
	// of anybody's.
	maxScrapeHead = 16 << 10
	// maxScrapes bounds concurrent scrapes: two Prometheus servers, a person and some
	// room.
	maxScrapes = 4
	// scrapeTime bounds a scrape; Prometheus' own default is as long.
	scrapeTime = 10 * time.Second
	// idleTime keeps a connection from one scrape to the next.
	idleTime = 2 * time.Minute
)

// OpenBatch is for a process that does one thing and ends, or does it periodically: its metrics are
// written to a file in Prometheus' text format, for node_exporter's textfile collector, "" for
// none, and are pushed if the environment asks for it. It returns nil if neither is set.
func OpenBatch(ctx context.Context, p Process, file string) (*Metrics, error) {
	m := &Metrics{p: p, push: wanted(os.Getenv, "METRICS"), file: file}
	if file == "" && !m.push {
		return nil, nil
	}
	if file != "" {
		m.registry = prometheus.NewRegistry()
	}
	return m, p.checkMetrics(ctx)
}

// Write replaces the file of a batch with the present values.
func (m *Metrics) Write() error {
	if m == nil || m.file == "" {
		return nil
	}
	if err := prometheus.WriteToTextfile(m.file, m.registry); err != nil {
		return fmt.Errorf("metrics cannot be written to %s: %w", m.file, err)
	}
	return nil
}

// Addr is the address of the scrape listener, "" if there is none.
func (m *Metrics) Addr() string {
	if m == nil || m.listener == nil {
		return ""
	}
	return m.listener.Addr().String()
}

// Node makes the instruments of a node, or with "" for both those that the nodes of a
// process share. They are exported until their End.
func (m *Metrics) Node(ctx context.Context, region, node string) (*meter.Set, error) {
	if m == nil {
		return nil, nil
	}
	p := m.p
	p.Region, p.Node = region, node
	who, err := p.resource(ctx)
	if err != nil {
		return nil, err
	}
	options := []metric.Option{metric.WithResource(who)}
	if m.registry != nil {
		how := []otelprometheus.Option{
			otelprometheus.WithRegisterer(m.registry), otelprometheus.WithoutScopeInfo(),
			otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
			otelprometheus.WithResourceAsConstantLabels(attribute.NewAllowKeysFilter(meter.Region, meter.Node)),
		}
		if m.file != "" { // the reader of the file is the target
			how = append(how, otelprometheus.WithoutTargetInfo())
		}
		reader, err := otelprometheus.New(how...)
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		options = append(options, metric.WithReader(reader))
	}
	if m.push {
		exporter, err := newMetricExporter(ctx, os.Getenv)
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		options = append(options, metric.WithReader(metric.NewPeriodicReader(&calmMetrics{exporter, calm{log: p.Log, what: "metrics"}})))
	}
	provider := metric.NewMeterProvider(options...)
	m.mu.Lock()
	m.ending = append(m.ending, provider.Shutdown)
	m.mu.Unlock()
	return meter.New(provider)
}

// Stop ends scrapes and pushes the remaining values, within ctx.
func (m *Metrics) Stop(ctx context.Context) error {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if m.server != nil {
		_ = m.server.Close() // the next scrape replaces one that is cut off
		m.served.Wait()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, end := range m.ending {
		if err := end(ctx); err != nil {
			m.p.Log.Warn("the last metrics could not be exported", "error", err)
		}
	}
	m.ending = nil
	return nil
}

// CheckMetrics returns the error that [OpenMetrics] would return, except for its
// listener, and opens nothing.
func CheckMetrics(ctx context.Context, p Process) error { return p.checkMetrics(ctx) }

func (p *Process) checkMetrics(ctx context.Context) error {
	if !wanted(os.Getenv, "METRICS") {
		return nil
	}
	if host := plaintext(os.Getenv, "METRICS"); host != "" && !p.AllowPlaintext {
		return fmt.Errorf("metrics would go to %s without TLS and expose the tenants and the collector's key; make OTEL_EXPORTER_OTLP_ENDPOINT https:// and unset OTEL_EXPORTER_OTLP_INSECURE, send them to a collector on this machine, push none with OTEL_METRICS_EXPORTER=none, or set metrics.allow_plaintext if that is intended", host)
	}
	exporter, err := newMetricExporter(ctx, os.Getenv)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return exporter.Shutdown(ctx)
}
