package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	stripe "github.com/stripe/stripe-go/v85"

	"github.com/homeward-io/homeward/e2e/balancer"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// anyRegion is a lossy way to the regions in turn, so that each retry arrives at another one. A region
// that is gone is passed over.
func anyRegion(t *testing.T, bases map[string]string) *lossy {
	t.Helper()
	var nodes []string
	for _, r := range regions {
		nodes = append(nodes, strings.TrimPrefix(bases[r], "http://"))
	}
	b, err := balancer.Start("127.0.0.1:0", func() []string { return nodes })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return startLossyTo(t, "http://"+b.Addr(), "sk_test_123", &http.Transport{DisableKeepAlives: true})
}

// counter is in front of an API, and counts what arrives there under each key.
type counter struct {
	*httptest.Server
	mu   sync.Mutex
	keys map[string]int
}

func newCounter(t *testing.T, to string) *counter {
	u, err := url.Parse(to)
	require.NoError(t, err)
	c, transport := &counter{keys: map[string]int{}}, &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.Transport = transport
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			c.mu.Lock()
			c.keys[r.Header.Get("Idempotency-Key")]++
			c.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// once asserts that want keys arrived, each once.
func (c *counter) once(t *testing.T, want int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.keys, want)
	for key, n := range c.keys {
		require.NotEmpty(t, key)
		require.Equal(t, 1, n, key)
	}
}

// TestStripeGoThroughAGateway: stripe-go, with nothing changed but its address, makes customers,
// payment intents and refunds at stripe-mock. Requests and replies are lost on its way to the
// gateway, a region is lost, and the gateway is killed: each call arrives once, and its retries read
// the same bytes.
func TestStripeGoThroughAGateway(t *testing.T) {
	t.Parallel()
	upstream := newCounter(t, startStranger(t, stripeMock, "-http-addr=ADDR", "-https-addr=127.0.0.1:0"))
	port := ports(t)
	config := childConfig{Dir: t.TempDir(), PSP: upstream.URL, Gateway: upstream.URL, backend: newBackend(t), Port: port}
	p := startChild(t, config)
	l := anyRegion(t, demoBases(port))
	c := stripeGo(l)
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()

	type call struct {
		name string
		make func(key string) (*stripe.APIResponse, error)
	}
	calls := []call{
		{"customer", func(key string) (*stripe.APIResponse, error) {
			params := &stripe.CustomerCreateParams{Email: stripe.String("jenny@example.com"), Name: stripe.String("Jenny & <Rosen>")}
			params.SetIdempotencyKey(key)
			made, err := c.V1Customers.Create(ctx, params)
			if err != nil {
				return nil, err
			}
			return made.LastResponse, nil
		}},
		{"payment_intent", func(key string) (*stripe.APIResponse, error) {
			params := intentOf(2500, "pm_card_visa")
			params.SetIdempotencyKey(key)
			made, err := c.V1PaymentIntents.Create(ctx, params)
			if err != nil {
				return nil, err
			}
			return made.LastResponse, nil
		}},
		{"refund", func(key string) (*stripe.APIResponse, error) {
			params := &stripe.RefundCreateParams{PaymentIntent: stripe.String("pi_123"), Amount: stripe.Int64(500)}
			params.SetIdempotencyKey(key)
			made, err := c.V1Refunds.Create(ctx, params)
			if err != nil {
				return nil, err
			}
			return made.LastResponse, nil
		}},
	}
	answers, made := map[string]string{}, 0
	again := func() {
		for _, one := range calls {
			for i := range 4 {
				key := fmt.Sprint(one.name, "-", i)
				if answers[key] == "" {
					continue
				}
				for range regions {
					got := asMerchant(ctx, func() (*stripe.APIResponse, error) { return one.make(key) })
					require.NotNil(t, got, key)
					require.Equal(t, answers[key], string(got.RawJSON), key)
					require.Equal(t, "true", got.Header.Get("Idempotent-Replayed"), key)
				}
			}
		}
		upstream.once(t, made)
	}
	round := func(i int) {
		for n, one := range calls {
			key := fmt.Sprint(one.name, "-", i)
			l.fates([]cut{losesRequest, losesReply, passes}[(i+n)%3], []cut{losesReply, passes, losesRequest}[(i+n)%3])
			got := asMerchant(ctx, func() (*stripe.APIResponse, error) { return one.make(key) })
			require.NotNil(t, got, key)
			require.Equal(t, http.StatusOK, got.StatusCode)
			require.Contains(t, string(got.RawJSON), `"object":"`+one.name+`"`)
			require.Len(t, slices.Compact(l.sent()), 1, "one call has one key")
			answers[key] = string(got.RawJSON)
			made++
		}
	}
	round(0)
	again()
	p.tell("cut", us, eu)
	round(1)
	p.tell("heal", us, eu)
	again()
	p.tell("lose", asia)
	until(t, "asia is gone", func() bool { return free(port+2, 1) })
	round(2)
	again()
	p.kill()
	startChild(t, config)
	again()
	round(3)
	again()
}

// TestStripeNodeThroughAGateway is the same of stripe-node.
func TestStripeNodeThroughAGateway(t *testing.T) {
	stripeNode(t)
	t.Parallel()
	upstream := newCounter(t, startStranger(t, stripeMock, "-http-addr=ADDR", "-https-addr=127.0.0.1:0"))
	port := ports(t)
	config := childConfig{Dir: t.TempDir(), PSP: upstream.URL, Gateway: upstream.URL, backend: newBackend(t), Port: port}
	p := startChild(t, config)
	l := anyRegion(t, demoBases(port))
	calls := func(i int) []nodeCall {
		key := func(what string) args { return args{"idempotencyKey": fmt.Sprint(what, "-", i)} }
		return []nodeCall{
			{"customers", "create", []any{args{"email": "jenny@example.com"}, key("customer")}},
			nodeIntent(2500+i, "pm_card_visa", key("intent")),
			{"refunds", "create", []any{args{"payment_intent": "pi_123", "amount": 500}, key("refund")}},
		}
	}
	var first []nodeMade
	round := func(i int) {
		l.fates(losesRequest, losesReply, passes, losesReply)
		for _, m := range viaNode(t, l, i%2 == 1, calls(i)...) {
			require.Nil(t, m.Error, "%+v", m.Error)
			first = append(first, m)
		}
		require.Greater(t, len(l.sent()), 3, "none was retried")
	}
	again := func() {
		var all []nodeCall
		for i := range len(first) / 3 {
			all = append(all, calls(i)...)
		}
		for range regions {
			for i, m := range viaNode(t, l, false, all...) {
				require.Nil(t, m.Error, "%+v", m.Error)
				require.Equal(t, "true", m.Replayed)
				require.Equal(t, first[i].Object, m.Object)
			}
		}
		upstream.once(t, len(first))
	}
	round(0)
	p.tell("lose", us)
	until(t, "us is gone", func() bool { return free(port, 1) })
	round(1)
	again()
	p.kill()
	startChild(t, config)
	again()
	round(2)
	again()
}

// TestStripeGoPaysThroughAGateway: at the simulator, which recognises a repeat by its key as Stripe
// does, no call stays unknown. It fails, loses replies and answers late, a region is lost, and the
// gateway is killed while calls are under way: each moves money once, and its retries read the same
// bytes.
func TestStripeGoPaysThroughAGateway(t *testing.T) {
	t.Parallel()
	payments := 60
	if testing.Short() {
		payments = 12
	}
	j, port := newJudge(t), ports(t)
	require.NoError(t, j.SetFaults(simulator.Faults{Latency: 2 * time.Millisecond, Jitter: 8 * time.Millisecond, ErrorBefore: 0.1, ErrorAfter: 0.1, DropReply: 0.1, Seed: stormSeed}))
	config := childConfig{
		Dir: t.TempDir(), PSP: j.url, Gateway: j.url + "/stripe", Dedupe: "Idempotency-Key", backend: newBackend(t), Port: port,
	}
	p := startChild(t, config)
	l := anyRegion(t, demoBases(port))
	c := stripeGo(l)
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()

	pay := func(i int) (*stripe.PaymentIntent, error) {
		params := intentOf(int64(1000+i), "pm_card_visa")
		params.OffSession = new(true)
		params.AddMetadata("homeward_reference", fmt.Sprint("order-", i)) // by which the simulator counts
		params.SetIdempotencyKey(fmt.Sprint("pay-", i))
		return c.V1PaymentIntents.Create(ctx, params)
	}
	refund := func(i int, of string) (*stripe.Refund, error) {
		params := &stripe.RefundCreateParams{PaymentIntent: stripe.String(of), Amount: stripe.Int64(100)}
		params.AddMetadata("homeward_reference", fmt.Sprint("refund-", i))
		params.SetIdempotencyKey(fmt.Sprint("refund-", i))
		return c.V1Refunds.Create(ctx, params)
	}
	paid, back := make([]*stripe.PaymentIntent, payments), make([]*stripe.Refund, payments)
	var through atomic.Int64
	var merchants sync.WaitGroup
	next := make(chan int, payments)
	for i := range payments {
		next <- i
	}
	close(next)
	for range 4 {
		merchants.Go(func() {
			for i := range next {
				paid[i] = asMerchant(ctx, func() (*stripe.PaymentIntent, error) { return pay(i) })
				if paid[i] == nil {
					return
				}
				back[i] = asMerchant(ctx, func() (*stripe.Refund, error) { return refund(i, paid[i].ID) })
				through.Add(1)
			}
		})
	}
	until(t, "some calls are through", func() bool { return int(through.Load()) >= payments/4 })
	p.tell("lose", eu)
	until(t, "half of the calls are through", func() bool { return int(through.Load()) >= payments/2 })
	p.kill()
	startChild(t, config)
	merchants.Wait()
	for i := range payments {
		require.NotNil(t, paid[i], i)
		require.NotNil(t, back[i], i)
		require.Equal(t, stripe.PaymentIntentStatusSucceeded, paid[i].Status)
		require.EqualValues(t, 1000+i, paid[i].AmountReceived)
		require.Equal(t, stripe.RefundStatusSucceeded, back[i].Status)
		for range regions {
			again := asMerchant(ctx, func() (*stripe.PaymentIntent, error) { return pay(i) })
			require.NotNil(t, again, i)
			require.Equal(t, string(paid[i].LastResponse.RawJSON), string(again.LastResponse.RawJSON))
			once := asMerchant(ctx, func() (*stripe.Refund, error) { return refund(i, paid[i].ID) })
			require.NotNil(t, once, i)
			require.Equal(t, string(back[i].LastResponse.RawJSON), string(once.LastResponse.RawJSON))
		}
		require.Equal(t, 1, j.moved(fmt.Sprint("order-", i)))
		require.Equal(t, 1, j.moved(fmt.Sprint("refund-", i)))
	}
	j.once(t, 2*payments)

	// A decline is remembered as the provider remembers it.
	no := intentOf(1, "pm_card_stolen")
	no.OffSession = new(true)
	no.AddMetadata("homeward_reference", "declined")
	no.SetIdempotencyKey("declined")
	require.NoError(t, j.SetFaults(simulator.Faults{}))
	var bodies []string
	for range regions {
		_, err := c.V1PaymentIntents.Create(ctx, no)
		e := stripeDeclined(t, err)
		bodies = append(bodies, string(e.DeclineCode))
	}
	require.Equal(t, []string{"stolen_card", "stolen_card", "stolen_card"}, bodies)
	j.once(t, 2*payments)
}

// stripeDeclined is the SDK's own error of a card.
func stripeDeclined(t *testing.T, err error) *stripe.Error {
	t.Helper()
	var e *stripe.Error
	var card *stripe.CardError
	require.ErrorAs(t, err, &card)
	require.ErrorAs(t, err, &e)
	return e
}

// asMerchant repeats a call with its key, as a merchant does whose library has given up.
func asMerchant[T any](ctx context.Context, call func() (*T, error)) *T {
	for {
		made, err := call()
		if err == nil {
			return made
		}
		var refused *stripe.Error
		if errors.As(err, &refused) && refused.HTTPStatusCode < http.StatusInternalServerError && refused.HTTPStatusCode != http.StatusConflict {
			return nil
		}
		if wait(ctx, 50*time.Millisecond) != nil {
			return nil
		}
	}
}

// TestStripeNodePaysThroughAGateway is the same of stripe-node, whose own retries meet the faults.
func TestStripeNodePaysThroughAGateway(t *testing.T) {
	stripeNode(t)
	t.Parallel()
	j := newJudge(t)
	g := startGateway(t, j.url+"/stripe", dedupesByKey)
	l := anyRegion(t, g.bases)
	require.NoError(t, j.SetFaults(simulator.Faults{ErrorAfter: 0.2, DropReply: 0.2, Seed: stormSeed}))
	pay := func(i int) nodeCall {
		return nodeCall{"paymentIntents", "create", []any{
			args{"amount": 1000 + i, "currency": "usd", "payment_method": "pm_card_visa", "confirm": true, "off_session": true, "metadata": args{"homeward_reference": fmt.Sprint("order-", i)}},
			args{"idempotencyKey": fmt.Sprint("pay-", i), "maxNetworkRetries": 10},
		}}
	}
	var calls []nodeCall
	for i := range 6 {
		calls = append(calls, pay(i), pay(i))
	}
	l.fates(losesRequest, losesReply)
	made := viaNode(t, l, true, calls...)
	now, cancel := context.WithCancel(g.ctx)
	cancel()
	g.taken.Store(true)
	_ = g.Region(asia).Stop(now) // it reports what it left open
	again := viaNode(t, l, false, calls...)
	for i := range calls {
		for _, m := range []nodeMade{made[i], again[i]} {
			require.Nil(t, m.Error, "%+v", m.Error)
			require.Equal(t, "succeeded", m.Object.Status)
			require.Equal(t, made[i/2*2].Object, m.Object)
		}
		require.Equal(t, 1, j.moved(fmt.Sprint("order-", i/2)))
	}
	back := nodeCall{"refunds", "create", []any{
		args{"payment_intent": made[0].Object.ID, "amount": 100, "metadata": args{"homeward_reference": "refund-0"}},
		args{"idempotencyKey": "refund-0", "maxNetworkRetries": 10},
	}}
	for _, m := range viaNode(t, l, true, back, back, back) {
		require.Nil(t, m.Error, "%+v", m.Error)
		require.Equal(t, "succeeded", m.Object.Status)
	}
	j.once(t, 7)
}
