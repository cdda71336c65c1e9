package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/client"
	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// merchant is the span of the program that calls: the only root that is recorded,
// with what links to it, so that other tests leave no traces here.
const merchant = "merchant"

type followed struct{}

func (followed) Description() string { return "the merchant's traces and what links to them" }

func (followed) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	linked := slices.ContainsFunc(p.Links, func(l trace.Link) bool { return l.SpanContext.IsSampled() })
	if linked || p.Name == merchant {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

// recorded is what the process's spans go to once a test asks for it: like the
// provider in a node, it is set once.
var recorded = sync.OnceValue(func() *tracetest.SpanRecorder {
	recorder := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(followed{})),
	))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return recorder
})

// traced is one whole trace.
type traced []sdktrace.ReadOnlySpan

// follow calls f as a merchant and returns the trace, once all of it has ended.
func follow(t testing.TB, f func(ctx context.Context)) traced {
	t.Helper()
	ctx, root := otel.Tracer("merchant").Start(t.Context(), merchant, trace.WithNewRoot())
	f(ctx)
	root.End()
	return whole(t, root.SpanContext().TraceID())
}

// whole waits until what has begun of a trace has ended: a server's span ends a
// moment after its answer has arrived.
func whole(t testing.TB, id trace.TraceID) (spans traced) {
	t.Helper()
	of := func(all []sdktrace.ReadOnlySpan) traced {
		return slices.DeleteFunc(slices.Clone(all), func(s sdktrace.ReadOnlySpan) bool { return s.SpanContext().TraceID() != id })
	}
	until(t, "the trace has ended", func() bool {
		var begun traced
		for _, s := range recorded().Started() {
			if s.SpanContext().TraceID() == id {
				begun = append(begun, s)
			}
		}
		spans = of(recorded().Ended())
		return len(spans) > 0 && len(spans) == len(begun)
	})
	return spans
}

const pgxScope = "github.com/exaring/otelpgx"

// sql takes the statements' spans out of the trace, after a look at them.
func (all traced) sql(t testing.TB) traced {
	t.Helper()
	var handler traced
	statements := map[string]bool{}
	for _, s := range all {
		if s.InstrumentationScope().Name != pgxScope {
			handler = append(handler, s)
			continue
		}
		statements[s.Name()] = true
		for _, a := range s.Attributes() {
			require.NotContains(t, string(a.Key), "parameters", "%s: a trace has the arguments of a statement", s.Name())
		}
	}
	require.Equal(t, onSQL(), len(statements) > 0, "statements in the trace: %v", statements)
	delete(statements, "pool.acquire") // the wait for a connection
	delete(statements, "connect")      // or for one more
	declared := declaredStatements(t)
	for name := range statements {
		require.Contains(t, declared, name, "statements go by their own names")
	}
	return handler
}

// alsoDeclared is a second statement that the SQL store makes of a file.
var alsoDeclared = regexp.MustCompile(`declareAlso\[\w+\]\("\w+", "(\w+)"\)`)

// declaredStatements are the names of the SQL store's statements: of its files, and of
// those that it makes of one of them.
func declaredStatements(t testing.TB) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../internal/sqlstore/query/*.sql")
	require.NoError(t, err)
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".sql"))
	}
	sources, err := filepath.Glob("../internal/sqlstore/*.go")
	require.NoError(t, err)
	for _, f := range sources {
		source, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range alsoDeclared.FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// shown are the attributes that a tree shows, in this order.
var shown = []attribute.Key{
	span.Region, span.Registrar, span.Way, span.HomeRegion, span.Entry, span.Hops, span.Hop, span.Found,
	span.Decision, span.Fence, span.AttemptNo, span.Recovery, span.Outcome, span.Reason, span.State, span.Replayed, span.Status,
}

// tree draws the trace, one span a line, siblings in the order in which they
// began. The names of regions are short.
func (all traced) tree() string {
	children := map[trace.SpanID]traced{}
	here := map[trace.SpanID]bool{}
	for _, s := range all {
		here[s.SpanContext().SpanID()] = true
	}
	for _, s := range all {
		parent := s.Parent().SpanID()
		if !here[parent] {
			parent = trace.SpanID{}
		}
		children[parent] = append(children[parent], s)
	}
	var b strings.Builder
	var draw func(id trace.SpanID, depth int)
	draw = func(id trace.SpanID, depth int) {
		slices.SortStableFunc(children[id], func(a, b sdktrace.ReadOnlySpan) int {
			return cmp.Compare(a.StartTime().UnixNano(), b.StartTime().UnixNano())
		})
		for _, s := range children[id] {
			b.WriteString("\n" + strings.Repeat("  ", depth) + s.Name())
			for _, key := range shown {
				for _, a := range s.Attributes() {
					if a.Key == key {
						_, name, _ := strings.Cut(string(key), ".")
						fmt.Fprintf(&b, " %s=%s", name[strings.LastIndex(name, ".")+1:], a.Value.String())
					}
				}
			}
			if s.Status().Code == otelcodes.Error {
				b.WriteString(" ERROR")
			}
			draw(s.SpanContext().SpanID(), depth+1)
		}
	}
	draw(trace.SpanID{}, 0)
	return strings.NewReplacer(us, "us", eu, "eu", asia, "asia").Replace(b.String()) + "\n"
}

// silent asserts that no span has one of the secrets.
func (all traced) silent(t testing.TB, secrets ...string) {
	t.Helper()
	for _, s := range all {
		said := []string{s.Name(), s.Status().Description}
		note := func(attributes []attribute.KeyValue) {
			for _, a := range attributes {
				said = append(said, a.Value.String())
			}
		}
		note(s.Attributes())
		for _, e := range s.Events() {
			said = append(said, e.Name)
			note(e.Attributes)
		}
		for _, l := range s.Links() {
			note(l.Attributes)
		}
		for _, text := range said {
			for _, secret := range secrets {
				require.NotContains(t, text, secret, "span %s", s.Name())
			}
		}
	}
}

// Nothing else in a trace looks like these.
const (
	secretAmount = 918273645
	secretMethod = "pm_card_visa"
	secretKey    = "order-secret-"
	secretOrder  = "order-id-of-nobodys-business"
	secretText   = "a text of nobody's business"
	secretNote   = "metadata-of-nobodys-business"
)

// buyer is acme's client at a region. Its bodies hold what no trace may have.
func (w *world) buyer(region string) *client.Client {
	c, err := client.New(client.Config{BaseURLs: []string{w.base(region)}, APIKey: acme, HTTPClient: w.http})
	require.NoError(w.t, err)
	return c
}

// buys makes the charge through the client and returns its trace, which has no secrets.
func (w *world) buys(region, key string) (*client.Charge, traced) {
	w.t.Helper()
	var c *client.Charge
	spans := follow(w.t, func(ctx context.Context) {
		var err error
		c, err = w.buyer(region).Charge(ctx, buying(key))
		require.NoError(w.t, err)
	})
	return c, w.secretive(spans)
}

func buying(key string) client.ChargeParams {
	return client.ChargeParams{
		Amount: secretAmount, Currency: "usd", PaymentMethod: secretMethod, IdempotencyKey: key,
		OrderID: secretOrder, Description: secretText, Metadata: map[string]string{secretNote: secretNote},
	}
}

// bought is what the client sends for it.
func bought(key string) request {
	return request{acme, "/v1/charges", key, fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":%q,"description":%q,"order_id":%q,"metadata":{%q:%q}}`,
		secretAmount, secretMethod, secretText, secretOrder, secretNote, secretNote), ""}
}

// secretive checks the trace against the request's secrets and the provider keys
// that the judge has seen.
func (w *world) secretive(spans traced) traced {
	w.t.Helper()
	secrets := []string{acme, fmt.Sprint(secretAmount), secretMethod, secretKey, secretOrder, secretText, secretNote}
	for _, e := range w.judge.Effects() {
		require.NotEmpty(w.t, e.ProviderKey)
		secrets = append(secrets, e.ProviderKey)
	}
	spans.silent(w.t, secrets...)
	return spans.sql(w.t)
}

// The steps of a first write where the claim is, and of a retry.
const (
	firstWrite = `
claim region=%[1]s home=%[1]s decision=won fence=1 state=IN_FLIGHT
attempt fence=1 attempt=1 recovery=false outcome=done
  POST status_code=200
settle fence=1 state=COMPLETED`
	replay = `
claim region=%[1]s home=%[1]s decision=replay fence=1 state=COMPLETED`
	missing = `
claim region=%[1]s decision=need_pin`
	found    = "\nreplica read region=%[1]s found=true"
	notFound = "\nreplica read region=%[1]s found=false"
)

// within indents steps that happened in region.
func within(depth int, region string, steps ...string) (text string) {
	for _, step := range steps {
		if strings.Contains(step, "%[1]s") {
			step = fmt.Sprintf(step, region)
		}
		text += strings.ReplaceAll(step, "\n", "\n"+strings.Repeat("  ", depth))
	}
	return text
}

// requested is what every trace begins with: the merchant, the client and the entry.
func requested(entry, served, home string, replayed bool, route string, steps ...string) string {
	return fmt.Sprintf(`
merchant
  POST /v1/charges
    POST region=%[2]s home=%[3]s attempt=1 replayed=%[4]t
      POST /v1/charges region=%[1]s status_code=201
        route region=%[1]s %[5]s state=COMPLETED replayed=%[4]t`, entry, served, home, replayed, route) + within(5, entry, steps...) + "\n"
}

func hop(entry, home string, steps ...string) string {
	return fmt.Sprintf("\nforward home=%[2]s hop=1\n  home region=%[2]s entry=%[1]s hop=1", entry, home) + within(2, home, steps...)
}

// TestTraces asserts the shape of the trace of every row of the table in DESIGN §4,
// the client's span and the provider's call included. The registrar of this tenant
// is us.
func TestTraces(t *testing.T) {
	t.Parallel()
	recorded()
	w := startTripsWorld(t)
	shape := func(region, key, want string) {
		t.Helper()
		_, spans := w.buys(region, key)
		require.Equal(t, want, spans.tree())
	}
	pin := func(home string) string { return "\npin registrar=us home=" + home }
	atHome, sentHome := stamped(t, us), stamped(t, eu)
	const pinnedHere, pinnedAway = secretKey + "here", secretKey + "away"

	// First write, stamped: at home, elsewhere.
	shape(us, atHome, requested("us", "us", "us", false, "route=local home=us hops=0", firstWrite))
	shape(us, sentHome, requested("us", "eu", "eu", false, "route=forward home=eu hops=1", notFound, hop("us", "eu", firstWrite)))
	// First write, opaque: entry = registrar, entry ≠ registrar.
	shape(us, pinnedHere, requested("us", "us", "us", false, "route=local home=us hops=0", firstWrite))
	shape(asia, pinnedAway, requested("asia", "asia", "asia", false, "route=registrar home=asia hops=0", missing, notFound, pin("asia"), firstWrite))

	// Retry at home.
	shape(us, atHome, requested("us", "us", "us", true, "route=local home=us hops=0", replay))
	shape(asia, pinnedAway, requested("asia", "asia", "asia", true, "route=local home=asia hops=0", replay))

	// Retry elsewhere, just finished: a forward, after a look-up where needed.
	shape(asia, sentHome, requested("asia", "eu", "eu", true, "route=forward home=eu hops=1", notFound, hop("asia", "eu", replay)))
	shape(us, pinnedAway, requested("us", "asia", "asia", true, "route=forward home=asia hops=1", missing, pin("asia"), notFound, hop("us", "asia", replay)))
	shape(eu, pinnedAway, requested("eu", "asia", "asia", true, "route=forward home=asia hops=1", missing, notFound, pin("asia"), notFound, hop("eu", "asia", replay)))

	// Finished more than a few seconds ago: the replica answers.
	w.age()
	w.awaitReplica(asia, bought(sentHome), 0)
	shape(asia, sentHome, requested("asia", "asia", "eu", true, "route=replica home=eu hops=0", found))
	w.awaitReplica(eu, bought(pinnedAway), 0)
	shape(eu, pinnedAway, requested("eu", "eu", "asia", true, "route=replica home=asia hops=0", missing, found))
	w.judge.once(t, 4)
}

// TestTraceOfADecline: a decline of the provider is an error of no span.
func TestTraceOfADecline(t *testing.T) {
	t.Parallel()
	recorded()
	w := startTripsWorld(t)
	spans := follow(t, func(ctx context.Context) {
		p := buying(stamped(t, us))
		p.PaymentMethod = "pm_card_insufficient_funds"
		c, err := client.New(client.Config{BaseURLs: []string{w.base(us)}, APIKey: acme, HTTPClient: w.http, MaxAttempts: 1})
		require.NoError(t, err)
		_, err = c.Charge(ctx, p)
		var refused *client.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, http.StatusPaymentRequired, refused.Status)
	})
	require.Equal(t, `
merchant
  POST /v1/charges
    POST attempt=1 status_code=402
      POST /v1/charges region=us status_code=402
        route region=us route=local home=us hops=0 state=FAILED_RETRY replayed=false
          claim region=us home=us decision=won fence=1 state=IN_FLIGHT
          attempt fence=1 attempt=1 recovery=false outcome=released reason=insufficient_funds
            POST status_code=402
          settle fence=1 reason=insufficient_funds state=FAILED_RETRY
`, w.secretive(spans).tree())
}

// TestTraceOfARecovery: what the outbox works off is a trace of its own, which
// links to the request that wrote the row.
func TestTraceOfARecovery(t *testing.T) {
	t.Parallel()
	recorded()
	w := startWorld(t, nil, nil)
	require.NoError(t, w.judge.SetFaults(simulator.Faults{ErrorAfter: 1}))
	key := stamped(t, us)
	spans := follow(t, func(ctx context.Context) {
		c, err := client.New(client.Config{BaseURLs: []string{w.base(us)}, APIKey: acme, HTTPClient: w.http, MaxAttempts: 1})
		require.NoError(t, err)
		_, err = c.Charge(ctx, buying(key))
		var refused *client.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "outcome_unknown", refused.Code)
	})
	require.Equal(t, `
merchant
  POST /v1/charges ERROR
    POST attempt=1 status_code=503 ERROR
      POST /v1/charges region=us status_code=503 ERROR
        route region=us route=local home=us hops=0 state=IN_FLIGHT replayed=false
          claim region=us home=us decision=won fence=1 state=IN_FLIGHT
          attempt fence=1 attempt=1 recovery=false outcome=unknown reason=no_answer
            POST status_code=500 ERROR
          settle fence=1 reason=no_answer state=IN_FLIGHT
`, w.secretive(spans).tree())
	require.NoError(t, w.judge.SetFaults(simulator.Faults{}))
	until(t, "the outbox has found out", func() bool {
		s, err := w.inspect(w.ctx, us, acme, key)
		return err == nil && s.State == claim.Completed.String()
	})

	began := spans[0].SpanContext().TraceID()
	settled := func() (row sdktrace.ReadOnlySpan) {
		for _, s := range recorded().Ended() {
			if s.Name() == span.Outbox+"provider_call" && slices.ContainsFunc(s.Links(), func(l sdktrace.Link) bool { return l.SpanContext.TraceID() == began }) {
				row = s
			}
		}
		return row
	}
	// The last of them: the first may have been a look too early.
	until(t, "the row's span has ended", func() bool {
		row := settled()
		return row != nil && strings.Contains(whole(t, row.SpanContext().TraceID()).tree(), "COMPLETED")
	})
	row := settled()
	require.Len(t, row.Links(), 1)
	require.NotEqual(t, began, row.SpanContext().TraceID())
	require.False(t, row.Parent().IsValid(), "a trace of its own")
	var writer sdktrace.ReadOnlySpan
	for _, s := range spans {
		if s.SpanContext().SpanID() == row.Links()[0].SpanContext.SpanID() {
			writer = s
		}
	}
	require.NotNil(t, writer, "the link leads to a span of the request")
	require.Equal(t, trace.SpanKindServer, writer.SpanKind())

	recovery := whole(t, row.SpanContext().TraceID())
	recovery.silent(t, acme, fmt.Sprint(secretAmount), secretMethod, key, w.judge.Effects()[0].ProviderKey)
	text := recovery.without(pgxScope).tree()
	require.Regexp(t, `^
outbox provider_call home=us fence=\d+
  claim region=us home=us decision=taken_over fence=\d+ state=IN_FLIGHT
  attempt fence=\d+ attempt=\d+ recovery=true outcome=done
    (POST|GET) status_code=200
  settle fence=\d+ state=COMPLETED
$`, text)
	w.judge.once(t, 1)
}

func (all traced) without(scope string) traced {
	return slices.DeleteFunc(slices.Clone(all), func(s sdktrace.ReadOnlySpan) bool { return s.InstrumentationScope().Name == scope })
}
