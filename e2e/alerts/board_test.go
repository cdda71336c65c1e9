package alerts

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/notifier"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

// interval is between two looks, in Prometheus' time.
const interval = 30 * time.Second

// board is a Prometheus in this process: it scrapes, evaluates the rules and has the firing alerts.
type board struct {
	t       testing.TB
	storage *teststorage.TestStorage
	engine  *promql.Engine
	groups  []*rules.Group
	now     time.Time
	step    time.Duration
	file    string // of metrics that a command wrote; "" for none
	target  string // host:port of the metrics; "" answers nothing
}

func newBoard(t testing.TB, target string) *board {
	b := &board{t: t, storage: teststorage.New(t), now: time.Now(), step: interval, target: target}
	t.Cleanup(func() { require.NoError(t, b.storage.Close()) })
	p := parser.NewParser(parser.Options{})
	b.engine = promql.NewEngine(promql.EngineOpts{Logger: slog.New(slog.DiscardHandler), MaxSamples: 10_000_000, Timeout: time.Minute, EnableAtModifier: true, Parser: p})
	m := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), Appendable: b.storage, Queryable: b.storage, Logger: slog.New(slog.DiscardHandler),
		QueryFunc: rules.EngineQueryFunc(b.engine, b.storage), NotifyFunc: rules.SendAlerts(noReceiver{}, ""), Parser: p,
	})
	// Recorded series come before the alerts that ask for them.
	for _, file := range []string{"recording.yaml", "alerts.yaml"} {
		groups, errs := m.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, "../../monitoring/"+file)
		require.Empty(t, errs)
		var of []*rules.Group
		for _, g := range groups {
			of = append(of, g)
		}
		slices.SortFunc(of, func(x, y *rules.Group) int { return strings.Compare(x.Name(), y.Name()) })
		b.groups = append(b.groups, of...)
	}
	return b
}

// noReceiver drops alerts.
type noReceiver struct{}

func (noReceiver) Send(...*notifier.Alert) {}

// look scrapes once, a step later than the last time, and evaluates all rules.
func (b *board) look() {
	b.t.Helper()
	b.now = b.now.Add(b.step)
	b.scrape()
	for _, g := range b.groups {
		g.Eval(b.t.Context(), b.now)
		for _, r := range g.Rules() {
			require.NoError(b.t, r.LastError(), r.Name())
		}
	}
}

// scrape stores the nodes' metrics.
func (b *board) scrape() {
	b.t.Helper()
	at := b.now.UnixMilli()
	app := b.storage.Appender(b.t.Context())
	add := func(l labels.Labels, v float64) {
		l = labels.NewBuilder(l).Set("job", "homeward").Set("instance", "cluster").Labels()
		_, err := app.Append(0, l, at, v)
		require.NoError(b.t, err)
	}
	up := 0.
	if text, kind, err := b.read(); err == nil {
		up = 1
		b.parse(text, kind, add)
	}
	if b.file != "" {
		text, err := os.ReadFile(b.file)
		require.NoError(b.t, err)
		b.parse(text, "text/plain", add)
	}
	add(labels.FromStrings("__name__", "up"), up)
	require.NoError(b.t, app.Commit())
}

func (b *board) parse(text []byte, kind string, add func(labels.Labels, float64)) {
	p, err := textparse.New(text, kind, labels.NewSymbolTable(), textparse.ParserOptions{})
	require.NoError(b.t, err)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(b.t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		_, _, v := p.Series()
		p.Labels(&l)
		add(l, v)
	}
}

func (b *board) read() (text []byte, kind string, err error) {
	if b.target == "" {
		return nil, "", errors.New("there is no node")
	}
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+b.target+"/metrics", nil)
	if err != nil {
		return nil, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err = io.ReadAll(res.Body)
	return text, res.Header.Get("Content-Type"), err
}

// firing returns the alerts that fire, with their labels.
func (b *board) firing() map[string][]labels.Labels {
	all := map[string][]labels.Labels{}
	for _, g := range b.groups {
		for _, r := range g.Rules() {
			if a, ok := r.(*rules.AlertingRule); ok {
				for _, one := range a.ActiveAlerts() {
					if one.State == rules.StateFiring {
						all[a.Name()] = append(all[a.Name()], one.Labels)
					}
				}
			}
		}
	}
	return all
}

// firesFor reports whether an alert fires with a label's value.
func (b *board) firesFor(alert, label, value string) bool {
	return slices.ContainsFunc(b.firing()[alert], func(l labels.Labels) bool { return l.Get(label) == value })
}

// value is what an expression gives now, as text.
func (b *board) value(expr string) string {
	q, err := b.engine.NewInstantQuery(b.t.Context(), b.storage, nil, expr, b.now)
	require.NoError(b.t, err, expr)
	defer q.Close()
	r := q.Exec(b.t.Context())
	require.NoError(b.t, r.Err, expr)
	return r.String()
}

// fires looks until an alert fires, with do before each look, for so many looks at most.
func (b *board) fires(alert string, looks int, do func()) {
	b.t.Helper()
	b.until(alert+" fires", looks, do, func() bool { return len(b.firing()[alert]) > 0 })
}

// ends looks until an alert no longer fires.
func (b *board) ends(alert string, looks int, do func()) {
	b.t.Helper()
	b.until(alert+" ends", looks, do, func() bool { return len(b.firing()[alert]) == 0 })
}

func (b *board) until(what string, looks int, do func(), is func() bool) {
	b.t.Helper()
	for range looks {
		if do != nil {
			do()
		}
		b.look()
		if is() {
			return
		}
	}
	require.FailNow(b.t, fmt.Sprintf("not after %d looks: %s", looks, what), "%v", b.firing())
}
