package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	stripe "github.com/stripe/stripe-go/v85"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	adapter "github.com/homeward-io/homeward/payment/psp/stripe"
)

// lossy is the way from Stripe's client to a node. It cuts connections, so that the
// client has to repeat what it sent, and counts what it sent. key is the client's API key.
type lossy struct {
	url, key string

	mu   sync.Mutex
	cut  []cut // the next requests' fates; those behind them pass
	keys []string
}

// cut is what becomes of a request.
type cut int

const (
	passes cut = iota
	losesRequest
	losesReply
)

// startLossy leads to a region of w.
func startLossy(t testing.TB, w *world, region string) *lossy {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return startLossyTo(t, w.base(region), acme, checked(t, transport))
}

// startLossyTo leads to an API.
func startLossyTo(t testing.TB, base, key string, transport http.RoundTripper) *lossy {
	t.Helper()
	to, err := url.Parse(base)
	require.NoError(t, err)
	l, proxy := &lossy{key: key}, httputil.NewSingleHostReverseProxy(to)
	proxy.Transport, proxy.ErrorLog = transport, log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch l.next(r) {
		case losesRequest:
			panic(http.ErrAbortHandler)
		case losesReply:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(rw, r)
		}
	}))
	// Or net/http would itself send again what was cut off on a connection it had used.
	server.Config.SetKeepAlivesEnabled(false)
	server.Start()
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

func (l *lossy) next(r *http.Request) cut {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, r.Header.Get("Idempotency-Key"))
	if len(l.cut) == 0 {
		return passes
	}
	c := l.cut[0]
	l.cut = l.cut[1:]
	return c
}

// fates sets the outcomes of the next requests, and drops those before.
func (l *lossy) fates(cuts ...cut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.keys = cuts, nil
}

// sent is the idempotency keys of the requests since fates, repeats included.
func (l *lossy) sent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.keys)
}

// stripeGo is stripe-go as a merchant has it, but for the address.
func stripeGo(l *lossy) *stripe.Client {
	return stripe.NewClient(l.key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(l.url), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

// failsOnce makes the provider answer the next call like f, and those behind it well.
func (w *world) failsOnce(f simulator.Faults) {
	w.t.Helper()
	w.judge.SetHooks(simulator.Hooks{Before: func(context.Context, psp.Call) { // what this call draws is drawn
		_ = w.judge.SetFaults(simulator.Faults{})
	}})
	require.NoError(w.t, w.judge.SetFaults(f))
}

func intentOf(amount int64, method string) *stripe.PaymentIntentCreateParams {
	return &stripe.PaymentIntentCreateParams{
		Amount: new(amount), Currency: stripe.String("usd"), PaymentMethod: stripe.String(method), Confirm: new(true),
	}
}

// stripeErr is the SDK's own error, and its own type for it.
func stripeErr[T error](t testing.TB, err error) (e *stripe.Error) {
	t.Helper()
	require.ErrorAs(t, err, &e)
	var typed T
	require.ErrorAs(t, err, &typed)
	require.NotEmpty(t, e.RequestID)
	return e
}

// stripe-go makes charges, payment intents, transfers and refunds, and reads them back.
func TestStripeGoPaysAndRefunds(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	l := startLossy(t, w, us)
	c := stripeGo(l)

	source, err := stripe.SourceParamsFor("pm_card_visa")
	require.NoError(t, err)
	made := &stripe.ChargeCreateParams{Amount: stripe.Int64(1999), Currency: stripe.String("usd"), Source: source, Description: stripe.String("two & <three>")}
	made.AddMetadata("order_id", "6735")
	charge, err := c.V1Charges.Create(w.ctx, made)
	require.NoError(t, err)
	require.EqualValues(t, 1999, charge.Amount)
	require.True(t, charge.Paid && charge.Captured && !charge.Refunded)
	require.Equal(t, stripe.ChargeStatusSucceeded, charge.Status)
	require.Equal(t, map[string]string{"order_id": "6735"}, charge.Metadata)
	require.Equal(t, "two & <three>", charge.Description)
	require.Equal(t, http.StatusOK, charge.LastResponse.StatusCode)
	require.NotEmpty(t, charge.LastResponse.RequestID)
	require.Equal(t, l.sent()[0], charge.LastResponse.IdempotencyKey)

	wanted := intentOf(2500, "pm_card_visa")
	wanted.AddExpand("latest_charge")
	intent, err := c.V1PaymentIntents.Create(w.ctx, wanted)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusSucceeded, intent.Status)
	require.EqualValues(t, 2500, intent.AmountReceived)
	require.EqualValues(t, 2500, intent.LatestCharge.Amount)

	back, err := c.V1Refunds.Create(w.ctx, &stripe.RefundCreateParams{
		Charge: stripe.String(charge.ID), Amount: stripe.Int64(500), Reason: stripe.String("requested_by_customer"), Metadata: map[string]string{"why": "late"},
	})
	require.NoError(t, err)
	require.EqualValues(t, 500, back.Amount)
	require.Equal(t, stripe.RefundStatusSucceeded, back.Status)
	require.Equal(t, charge.ID, back.Charge.ID)
	require.Equal(t, charge.PaymentIntent.ID, back.PaymentIntent.ID)
	require.Equal(t, map[string]string{"why": "late"}, back.Metadata)
	whole, err := c.V1Refunds.Create(w.ctx, &stripe.RefundCreateParams{PaymentIntent: stripe.String(intent.ID)})
	require.NoError(t, err)
	require.EqualValues(t, 2500, whole.Amount)
	require.Equal(t, intent.LatestCharge.ID, whole.Charge.ID)

	out, err := c.V1Transfers.Create(w.ctx, &stripe.TransferCreateParams{Amount: stripe.Int64(77), Currency: stripe.String("usd"), Destination: stripe.String("acct_1")})
	require.NoError(t, err)
	require.Equal(t, "acct_1", out.Destination.ID)

	asCharge, err := c.V1Charges.Retrieve(w.ctx, charge.ID, nil)
	require.NoError(t, err)
	require.Equal(t, charge.ID, asCharge.ID)
	require.EqualValues(t, 1999, asCharge.AmountCaptured)
	require.EqualValues(t, 500, asCharge.AmountRefunded)
	require.False(t, asCharge.Refunded || asCharge.Disputed)
	require.Nil(t, asCharge.Refunds)
	expanded := &stripe.ChargeRetrieveParams{}
	expanded.AddExpand("refunds")
	asCharge, err = c.V1Charges.Retrieve(w.ctx, charge.ID, expanded)
	require.NoError(t, err)
	require.Len(t, asCharge.Refunds.Data, 1)
	require.Equal(t, back.ID, asCharge.Refunds.Data[0].ID)
	asIntent, err := c.V1PaymentIntents.Retrieve(w.ctx, charge.PaymentIntent.ID, nil)
	require.NoError(t, err)
	require.Equal(t, charge.ID, asIntent.LatestCharge.ID)
	require.EqualValues(t, 1999, asIntent.AmountReceived)
	ofIntent := &stripe.PaymentIntentRetrieveParams{}
	ofIntent.AddExpand("latest_charge.refunds")
	asIntent, err = c.V1PaymentIntents.Retrieve(w.ctx, intent.ID, ofIntent)
	require.NoError(t, err)
	require.True(t, asIntent.LatestCharge.Refunded)
	require.Equal(t, whole.ID, asIntent.LatestCharge.Refunds.Data[0].ID)
	read, err := c.V1Refunds.Retrieve(w.ctx, back.ID, nil)
	require.NoError(t, err)
	require.Equal(t, stripe.RefundStatusSucceeded, read.Status)
	require.Equal(t, map[string]string{"why": "late"}, read.Metadata)

	// All refunds of a charge, by the SDK's own paging.
	for range 3 {
		_, err := c.V1Refunds.Create(w.ctx, &stripe.RefundCreateParams{Charge: stripe.String(charge.ID), Amount: stripe.Int64(100)})
		require.NoError(t, err)
	}
	pages := &stripe.RefundListParams{Charge: stripe.String(charge.ID)}
	pages.Limit = stripe.Int64(3)
	sum, listed := int64(0), 0
	for one, err := range c.V1Refunds.List(w.ctx, pages).All(w.ctx) {
		require.NoError(t, err)
		require.Equal(t, charge.ID, one.Charge.ID)
		sum, listed = sum+one.Amount, listed+1
	}
	require.EqualValues(t, 800, sum)
	require.Equal(t, 4, listed)

	// All payments, the latest first, as charges and as payment intents, by the SDK's own paging.
	one, err := c.V1PaymentIntents.Create(w.ctx, intentOf(700, "pm_card_visa"))
	require.NoError(t, err)
	since := charge.Created
	ofCharges := &stripe.ChargeListParams{CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: since}}
	ofCharges.Limit = stripe.Int64(2)
	var charges []*stripe.Charge
	for c, err := range c.V1Charges.List(w.ctx, ofCharges).All(w.ctx) {
		require.NoError(t, err)
		charges = append(charges, c)
	}
	ids := func(all []*stripe.Charge) (ids []string) {
		for _, c := range all {
			ids = append(ids, c.ID)
		}
		return ids
	}
	require.ElementsMatch(t, []string{charge.ID, intent.LatestCharge.ID, one.LatestCharge.ID}, ids(charges))
	require.True(t, slices.IsSortedFunc(charges, func(a, b *stripe.Charge) int { return cmp.Compare(b.Created, a.Created) }))
	for _, c := range charges {
		if c.ID == charge.ID {
			require.EqualValues(t, 800, c.AmountRefunded)
			require.Equal(t, map[string]string{"order_id": "6735"}, c.Metadata)
			require.Equal(t, charge.Created, c.Created)
		}
	}
	ofIntents := &stripe.PaymentIntentListParams{}
	ofIntents.Limit = stripe.Int64(1)
	ofIntents.AddExpand("data.latest_charge")
	var intents []string
	for pi, err := range c.V1PaymentIntents.List(w.ctx, ofIntents).All(w.ctx) {
		require.NoError(t, err)
		require.Equal(t, pi.ID, pi.LatestCharge.PaymentIntent.ID)
		intents = append(intents, pi.LatestCharge.ID)
	}
	require.Equal(t, ids(charges), intents)
	for c, err := range c.V1Charges.List(w.ctx, &stripe.ChargeListParams{PaymentIntent: stripe.String(intent.ID)}).All(w.ctx) {
		require.NoError(t, err)
		require.Equal(t, intent.LatestCharge.ID, c.ID)
	}

	w.judge.once(t, 9)
}

// What is lost on the way, before or after the node has done its work, stripe-go repeats
// by itself, under its own key: one movement, and the same object.
func TestStripeGoSurvivesLostReplies(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	l := startLossy(t, w, eu)
	c := stripeGo(l)
	oneKey := func(requests int) {
		t.Helper()
		keys := l.sent()
		require.Len(t, keys, requests)
		require.NotEmpty(t, keys[0])
		require.Len(t, slices.Compact(keys), 1, "one call has one key")
	}

	l.fates(losesRequest, losesReply)
	intent, err := c.V1PaymentIntents.Create(w.ctx, intentOf(2500, "pm_card_visa"))
	require.NoError(t, err)
	oneKey(3)
	require.Equal(t, "true", intent.LastResponse.Header.Get("Idempotent-Replayed"))
	w.judge.once(t, 1)

	l.fates(losesReply)
	refund, err := c.V1Refunds.Create(w.ctx, &stripe.RefundCreateParams{PaymentIntent: stripe.String(intent.ID), Amount: stripe.Int64(100)})
	require.NoError(t, err)
	oneKey(2)
	require.Equal(t, "true", refund.LastResponse.Header.Get("Idempotent-Replayed"))
	w.judge.once(t, 2)

	// The provider's reply is lost, too: the outcome is unknown at first.
	w.failsOnce(simulator.Faults{DropReply: 1})
	l.fates(losesReply)
	_, err = c.V1PaymentIntents.Create(w.ctx, intentOf(2501, "pm_card_visa"))
	require.NoError(t, err)
	w.failsOnce(simulator.Faults{ErrorAfter: 1})
	l.fates(losesReply)
	_, err = c.V1Refunds.Create(w.ctx, &stripe.RefundCreateParams{PaymentIntent: stripe.String(intent.ID), Amount: stripe.Int64(200)})
	require.NoError(t, err)
	oneKey(2)
	w.judge.once(t, 4)
}

// Calls that share a key, sent while the first is at a slow provider, read its one payment: those
// that get "in use" are kept and sent again.
func TestStripeGoCallsThatShareAKey(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	require.NoError(t, w.judge.SetFaults(simulator.Faults{Latency: 3 * w.policy.WaitMax}))
	key := stripe.NewIdempotencyKey()
	bodies := make([]string, 3)
	var all sync.WaitGroup
	for i, region := range regions {
		l := startLossy(t, w, region)
		all.Go(func() {
			params := intentOf(2500, "pm_card_visa")
			params.SetIdempotencyKey(key)
			if intent, err := stripeGo(l).V1PaymentIntents.Create(w.ctx, params); err == nil {
				bodies[i] = string(intent.LastResponse.RawJSON)
			} else {
				bodies[i] = err.Error()
			}
		})
	}
	all.Wait()
	require.Contains(t, bodies[0], `"object":"payment_intent"`)
	require.Equal(t, []string{bodies[0], bodies[0], bodies[0]}, bodies)
	w.judge.once(t, 1)
}

// A refusal is the SDK's own typed error, and is sent once.
func TestStripeGoReadsRefusals(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	l := startLossy(t, w, us)
	c := stripeGo(l)
	create := func(params *stripe.PaymentIntentCreateParams) error {
		t.Helper()
		l.fates()
		_, err := c.V1PaymentIntents.Create(w.ctx, params)
		require.Error(t, err)
		require.Len(t, l.sent(), 1, "nothing is gained by sending it again")
		return err
	}

	for method, code := range map[string]stripe.DeclineCode{"pm_card_insufficient_funds": "insufficient_funds", "pm_card_stolen": "stolen_card"} {
		e := stripeErr[*stripe.CardError](t, create(intentOf(2500, method)))
		require.Equal(t, stripe.ErrorTypeCard, e.Type)
		require.Equal(t, stripe.ErrorCodeCardDeclined, e.Code)
		require.Equal(t, code, e.DeclineCode)
		require.Equal(t, http.StatusPaymentRequired, e.HTTPStatusCode)
		require.Equal(t, "false", e.LastResponse.Header.Get("Stripe-Should-Retry"))
		require.NotEmpty(t, e.Msg)
	}
	w.judge.once(t, 0)

	// A soft decline lets go of its key: a person who tries again, may.
	once := intentOf(2500, "pm_card_insufficient_funds_once")
	once.SetIdempotencyKey("order-17")
	stripeErr[*stripe.CardError](t, create(once))
	until(t, "the card has money", func() bool {
		_, err := c.V1PaymentIntents.Create(w.ctx, once)
		return err == nil
	})
	w.judge.once(t, 1)

	other := intentOf(2501, "pm_card_insufficient_funds_once")
	other.SetIdempotencyKey("order-17")
	e := stripeErr[*stripe.IdempotencyError](t, create(other))
	require.Equal(t, http.StatusBadRequest, e.HTTPStatusCode)

	unknown := intentOf(2500, "pm_card_visa")
	unknown.Mandate = stripe.String("mandate_1")
	e = stripeErr[*stripe.InvalidRequestError](t, create(unknown))
	require.Equal(t, stripe.ErrorCodeParameterUnknown, e.Code)
	require.Equal(t, "mandate", e.Param)
	later := intentOf(2500, "pm_card_visa")
	later.Confirm = nil
	require.Equal(t, stripe.ErrorCodeParameterMissing, stripeErr[*stripe.InvalidRequestError](t, create(later)).Code)
	elsewhere := intentOf(2500, "pm_card_visa")
	elsewhere.SetStripeAccount("acct_1") // which is more than this provider has
	stripeErr[*stripe.InvalidRequestError](t, create(elsewhere))

	_, err := c.V1Refunds.Create(w.ctx, &stripe.RefundCreateParams{Charge: stripe.String("ch_1")})
	require.Equal(t, "charge", stripeErr[*stripe.InvalidRequestError](t, err).Param)
	_, err = c.V1Charges.Retrieve(w.ctx, "ch_1", nil)
	require.Equal(t, stripe.ErrorCodeResourceMissing, stripeErr[*stripe.InvalidRequestError](t, err).Code)
	_, err = c.V1Customers.Create(w.ctx, &stripe.CustomerCreateParams{})
	require.Equal(t, http.StatusNotFound, stripeErr[*stripe.InvalidRequestError](t, err).HTTPStatusCode)
	w.judge.once(t, 1)
}

// To a caller without retries an unknown outcome is answered as one to retry. stripe-go does not;
// its caller, with the same key, reads the one payment. An error with an unknown outcome is never a
// card error.
func TestStripeGoReadsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, func(c *node.ClusterConfig) { c.Limits.AskAgain = 0 })
	l := startLossy(t, w, us)
	c := stripeGo(l)
	w.failsOnce(simulator.Faults{DropReply: 1})
	params := intentOf(2500, "pm_card_visa")
	params.SetIdempotencyKey("order-17")
	_, err := c.V1PaymentIntents.Create(w.ctx, params)
	e := stripeErr[*stripe.APIError](t, err)
	require.Equal(t, http.StatusServiceUnavailable, e.HTTPStatusCode)
	require.Equal(t, stripe.ErrorCode("outcome_unknown"), e.Code)
	require.Equal(t, "true", e.LastResponse.Header.Get("Stripe-Should-Retry"))
	var intent *stripe.PaymentIntent
	until(t, "the outcome is decided", func() bool {
		intent, err = c.V1PaymentIntents.Create(w.ctx, params)
		return err == nil
	})
	again, err := c.V1PaymentIntents.Create(w.ctx, params)
	require.NoError(t, err)
	require.Equal(t, string(intent.LastResponse.RawJSON), string(again.LastResponse.RawJSON))
	w.judge.once(t, 1)
}

// The native reply, the form's and the payment intent's are those of one payment, and
// each reads the same bytes for ever.
func TestOnePaymentInTwoShapes(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, nil)
	form := func(region, path, body string) string {
		req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.base(region)+path, strings.NewReader(body))
		require.NoError(t, err)
		req.SetBasicAuth(acme, "")
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Stripe-Version", stripe.APIVersion)
		req.Header.Set("Idempotency-Key", "order-17")
		r := w.do(req)
		require.NoError(t, r.Err)
		require.Equal(t, http.StatusOK, r.Status, "%s", r.Body)
		return string(r.Body)
	}
	const members = "amount=100&currency=usd&payment_method=pm_card_visa"
	first := form(asia, "/v1/charges", members)
	native := w.at(us, charge("order-17", 100), http.StatusCreated)
	require.Equal(t, "true", native.Header.Get("Idempotent-Replayed"))
	intent := form(eu, "/v1/payment_intents", members+"&confirm=true&off_session=true")
	for _, region := range regions {
		require.Equal(t, first, form(region, "/v1/charges", members))
		require.Equal(t, intent, form(region, "/v1/payment_intents", members+"&confirm=true&off_session=true"))
		require.Equal(t, native.Remembered(), w.at(region, charge("order-17", 100), http.StatusCreated).Remembered())
	}
	require.Equal(t, http.StatusUnprocessableEntity, w.send(w.ctx, us, charge("order-17", 101)).Status)
	w.judge.once(t, 1)
}

// A payer who is there may have to authenticate: stripe-go reads what its own page needs
// for that, as often as it asks the same bytes, and the payment once it is made.
func TestStripeGoWaitsForThePayer(t *testing.T) {
	t.Parallel()
	const name, secret = "stripe", "whsec_test"
	j := newJudge(t)
	w := startWorld(t, j, func(c *node.ClusterConfig) {
		p, err := adapter.New(adapter.Config{Name: name, Key: "sk_test_world", WebhookSecret: secret, BaseURL: j.url + "/stripe"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		c.Providers, c.Notifiers = psp.Providers{p}, map[string]psp.Notifier{name: p}
	})
	require.NoError(t, j.SetNotices(simulator.Notices{Targets: []simulator.NoticeTarget{{URL: w.base(eu) + "/v1/webhooks/" + name, Secret: secret, Stripe: true}}}))
	c := stripeGo(startLossy(t, w, us))
	params := intentOf(2500, "pm_card_3ds")
	params.ReturnURL = stripe.String("https://shop.example/back")
	params.AddMetadata("order_id", "6735")
	params.SetIdempotencyKey("order-17")
	first, err := c.V1PaymentIntents.Create(w.ctx, params)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusRequiresAction, first.Status)
	require.NotEmpty(t, first.ClientSecret)
	require.NotNil(t, first.NextAction)
	require.Zero(t, first.AmountReceived)
	again, err := c.V1PaymentIntents.Create(w.ctx, params)
	require.NoError(t, err)
	require.Equal(t, string(first.LastResponse.RawJSON), string(again.LastResponse.RawJSON))
	read, err := c.V1PaymentIntents.Retrieve(w.ctx, first.ID, nil)
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusRequiresAction, read.Status)
	w.judge.once(t, 0)

	var waits struct{ Provider struct{ Reference string } }
	require.NoError(t, json.Unmarshal(first.LastResponse.RawJSON, &waits))
	require.NoError(t, j.Act(waits.Provider.Reference, simulator.ActSucceed))
	until(t, "the payment is made", func() bool {
		again, err = c.V1PaymentIntents.Create(w.ctx, params)
		require.NoError(t, err)
		return again.Status == stripe.PaymentIntentStatusSucceeded
	})
	require.EqualValues(t, 2500, again.AmountReceived)
	require.Equal(t, first.ID, again.ID)
	w.judge.once(t, 1)

	// An absent payer cannot be asked to authenticate.
	away := intentOf(2500, "pm_card_3ds")
	away.OffSession = new(true)
	_, err = c.V1PaymentIntents.Create(w.ctx, away)
	require.Equal(t, stripe.DeclineCodeAuthenticationRequired, stripeErr[*stripe.CardError](t, err).DeclineCode)
}

// stripe-go holds a payment, captures a part of it, and cancels another.
func TestStripeGoCapturesAndCancels(t *testing.T) {
	t.Parallel()
	j := newJudge(t)
	w := startWorld(t, j, func(c *node.ClusterConfig) {
		p, err := adapter.New(adapter.Config{Name: "stripe", Key: "sk_test_world", BaseURL: j.url + "/stripe"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		c.Providers = psp.Providers{p}
	})
	c := stripeGo(startLossy(t, w, us))
	hold := func() *stripe.PaymentIntent {
		params := intentOf(2500, "pm_card_visa")
		params.CaptureMethod = stripe.String("manual")
		pi, err := c.V1PaymentIntents.Create(w.ctx, params)
		require.NoError(t, err)
		require.Equal(t, stripe.PaymentIntentStatusRequiresCapture, pi.Status)
		require.Equal(t, stripe.PaymentIntentCaptureMethodManual, pi.CaptureMethod)
		require.EqualValues(t, 2500, pi.AmountCapturable)
		require.Zero(t, pi.AmountReceived)
		return pi
	}
	first := hold()
	charge, err := c.V1Charges.Retrieve(w.ctx, first.LatestCharge.ID, nil)
	require.NoError(t, err)
	require.Equal(t, stripe.ChargeStatusSucceeded, charge.Status)
	require.False(t, charge.Captured)
	took, err := c.V1PaymentIntents.Capture(w.ctx, first.ID, &stripe.PaymentIntentCaptureParams{AmountToCapture: stripe.Int64(1500)})
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusSucceeded, took.Status)
	require.EqualValues(t, 1500, took.AmountReceived)
	require.Zero(t, took.AmountCapturable)
	charge, err = c.V1Charges.Capture(w.ctx, charge.ID, &stripe.ChargeCaptureParams{Amount: stripe.Int64(1500)})
	require.NoError(t, err)
	require.True(t, charge.Captured)
	require.EqualValues(t, 1000, charge.AmountRefunded, "what was not captured")
	_, err = c.V1PaymentIntents.Capture(w.ctx, first.ID, &stripe.PaymentIntentCaptureParams{AmountToCapture: stripe.Int64(1)})
	require.Contains(t, stripeErr[*stripe.InvalidRequestError](t, err).Error(), "captured already")
	w.judge.once(t, 1)

	second := hold()
	gone, err := c.V1PaymentIntents.Cancel(w.ctx, second.ID, &stripe.PaymentIntentCancelParams{CancellationReason: stripe.String("abandoned")})
	require.NoError(t, err)
	require.Equal(t, stripe.PaymentIntentStatusCanceled, gone.Status)
	require.EqualValues(t, 2500, gone.Amount)
	_, err = c.V1PaymentIntents.Capture(w.ctx, second.ID, nil)
	require.Error(t, err)
	w.judge.once(t, 1)
}
