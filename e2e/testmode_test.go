package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp/testmode"
)

// acmeTest is a key of acme's test side.
const acmeTest = "sk_acme_test"

// withTestSide gives acme a test side, and pauses between attempts as a deployment has them: a test
// clock's time counts by the longest.
func withTestSide(c *node.ClusterConfig) {
	c.Policy.BackoffMax = claim.DefaultPolicy().BackoffMax
	live := c.Tenants[0].Tenant
	live.ID = claim.TestTenant(live.ID)
	c.Tenants = append(c.Tenants, node.ClusterTenant{Tenant: live, APIKeys: []string{acmeTest}})
}

// of is the same request with another API key.
func (q request) of(apiKey string) request {
	q.tenant = apiKey
	return q
}

// read gets a path with an API key.
func (w *world) read(region, apiKey, path string) *answer.Answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.base(region)+path, nil)
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+apiKey)
	r := w.do(req)
	require.NoError(w.t, r.Err)
	return r
}

func (w *world) testTenant(cluster *node.Cluster) string {
	w.t.Helper()
	store, err := cluster.DB.Region(us)
	require.NoError(w.t, err)
	tenant, found, err := store.TenantByAPIKey(w.ctx, claim.HashAPIKey(acmeTest))
	require.NoError(w.t, err)
	require.True(w.t, found)
	return tenant.ID
}

// livemode is what an object says.
func livemode(t testing.TB, r *answer.Answer) bool {
	t.Helper()
	var o struct{ Livemode *bool }
	require.NoError(t, json.Unmarshal(r.Body, &o), "%s", r.Body)
	require.NotNil(t, o.Livemode, "%s", r.Body)
	return *o.Livemode
}

// TestTestKeysMoveNoMoney: the same request under the same key with a live and a test key is two
// payments, one at the provider and one that is only simulated, and neither side sees the other's.
func TestTestKeysMoveNoMoney(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, withTestSide)
	paid, tried := map[string]string{}, map[string]string{}
	for _, q := range []request{charge("same", 100), transfer("same-transfer", 100)} {
		live := w.at(us, q, http.StatusCreated)
		test := w.at(eu, q.of(acmeTest), http.StatusCreated)
		require.True(t, livemode(t, live))
		require.False(t, livemode(t, test))
		require.Contains(t, string(test.Body), `"provider":{"name":"test","reference":"test_`)
		paid[q.path], tried[q.path] = objectID(t, live), objectID(t, test)
		require.Equal(t, test.Body, w.at(asia, q.of(acmeTest), http.StatusCreated).Body, "a replay")
	}
	w.judge.once(t, 2)
	refund := func(key, charge string) request {
		return request{acme, "/v1/refunds", key, `{"charge":"` + charge + `"}`, ""}
	}
	w.at(us, refund("r", paid["/v1/charges"]), http.StatusCreated)
	back := w.at(us, refund("r", tried["/v1/charges"]).of(acmeTest), http.StatusCreated)
	require.False(t, livemode(t, back))
	w.judge.once(t, 3)

	// What the one side has does not exist for the other.
	for _, side := range []struct {
		key, other string
		has        map[string]string
	}{{acme, acmeTest, paid}, {acmeTest, acme, tried}} {
		for _, region := range regions {
			for path, id := range side.has {
				require.Equal(t, http.StatusOK, w.read(region, side.key, path+"/"+id).Status)
				require.Equal(t, http.StatusNotFound, w.read(region, side.other, path+"/"+id).Status)
			}
			require.Equal(t, http.StatusOK, w.read(region, side.key, "/v1/refunds?charge="+side.has["/v1/charges"]).Status)
			require.Equal(t, http.StatusNotFound, w.read(region, side.other, "/v1/refunds?charge="+side.has["/v1/charges"]).Status)
		}
		w.at(us, refund("stolen-"+side.key, side.has["/v1/charges"]).of(side.other), http.StatusBadRequest)
	}
	// Nor in a list: each has its own order of that name.
	ordered := charge("ordered", 100)
	ordered.body = `{"amount":100,"currency":"usd","order_id":"o-1","payment_method":"pm_card_visa"}`
	for _, key := range []string{acme, acmeTest} {
		own := objectID(t, w.at(us, ordered.of(key), http.StatusCreated))
		for _, region := range regions {
			var list struct{ Data []struct{ ID string } }
			r := w.read(region, key, "/v1/charges?order_id=o-1")
			require.NoError(t, json.Unmarshal(r.Body, &list), "%s", r.Body)
			require.Len(t, list.Data, 1, "%s", r.Body)
			require.Equal(t, own, list.Data[0].ID)
		}
	}
	w.at(us, charge("only-live", 100), http.StatusCreated)
	w.nothing(acmeTest, "only-live")
	w.at(us, charge("only-test", 100).of(acmeTest), http.StatusCreated)
	w.nothing(acme, "only-test")
	w.judge.once(t, 5)

	// Nor in the books: no transaction of the one has an account of the other.
	store, err := w.cluster.DB.Region(us)
	require.NoError(t, err)
	tenant, sides := w.testTenant(w.cluster), map[bool]int{}
	for _, home := range regions {
		all, err := store.Transactions(w.ctx, home, ledger.Position{}, time.Time{}, 1000)
		require.NoError(t, err)
		for _, tx := range all {
			live := tx.Tenant != tenant
			sides[live]++
			for _, account := range []ledger.Account{tx.Debit, tx.Credit} {
				require.Equal(t, !live, account == ledger.Merchant(tenant) || account == ledger.Provider(claim.TestProvider), "%s of %s", account, tx.Tenant)
			}
		}
	}
	require.Equal(t, map[bool]int{true: 5, false: 5}, sides)
}

// trial is one test payment: what it is answered at once, and how it ends.
type trial struct {
	answer int
	status string // of the object, or the problem's code
	// passes is what time it takes; then the object has these members, or it is refused.
	passes time.Duration
	ends   string
	// refund is answered so, and has these members after a day.
	refund     int
	refundEnds string
}

const succeeded = `"status":"succeeded"`

// testCharges and testTransfers are what docs/API.md says of each.
var testCharges = map[string]trial{
	"pm_card_visa":                    {answer: 201, status: "succeeded", refund: 201, refundEnds: succeeded},
	"pm_card_slow":                    {answer: 201, status: "succeeded"},
	"pm_card_insufficient_funds":      {answer: 402, status: "insufficient_funds"},
	"pm_card_insufficient_funds_once": {answer: 402, status: "insufficient_funds"},
	"pm_card_try_again_later":         {answer: 402, status: "try_again_later"},
	"pm_card_stolen":                  {answer: 402, status: "stolen_card"},
	"pm_unknown":                      {answer: 400, status: "payment_method_invalid"},
	"pm_card_3ds":                     {answer: 202, status: "requires_action", passes: time.Minute, ends: succeeded},
	"pm_card_3ds_fails":               {answer: 202, status: "requires_action", passes: time.Minute},
	"pm_card_3ds_abandoned":           {answer: 202, status: "requires_action", passes: 24 * time.Hour},
	"pm_bank_debit":                   {answer: 202, status: "processing", passes: 48 * time.Hour, ends: succeeded},
	"pm_bank_debit_fails":             {answer: 202, status: "processing", passes: 48 * time.Hour},
	"pm_card_no_answer":               {answer: 503, status: "outcome_unknown", passes: time.Minute, ends: succeeded},
	"pm_card_unknown":                 {answer: 503, status: "outcome_unknown"},
	"pm_card_provider_down":           {answer: 503, status: "outcome_unknown"},
	"pm_card_fails_later":             {answer: 201, status: "succeeded", passes: 72 * time.Hour, ends: `"status":"failed"`},
	"pm_card_dispute_won":             {answer: 201, status: "succeeded", passes: 8 * 24 * time.Hour, ends: `"status":"won"`},
	"pm_card_dispute_lost":            {answer: 201, status: "succeeded", passes: 8 * 24 * time.Hour, ends: `"status":"lost"`},
	"pm_card_refund_fails":            {answer: 201, status: "succeeded", refund: 201, refundEnds: `"status":"failed"`},
	"pm_card_refund_waits":            {answer: 201, status: "succeeded", refund: 202, refundEnds: succeeded},
	"pm_card_ghost":                   {answer: 402, status: "do_not_honor", passes: time.Hour, ends: `"compensations":[{"object":"compensation","amount":500,"currency":"usd","status":"refunded"`},
}

var testTransfers = map[string]trial{
	"acct_paid":        {answer: 201, status: "succeeded"},
	"acct_closed":      {answer: 402, status: "account_closed"},
	"acct_fails_later": {answer: 201, status: "succeeded", passes: 72 * time.Hour, ends: `"status":"failed"`},
	"acct_returned":    {answer: 201, status: "succeeded", passes: 24 * time.Hour, ends: `"amount_reversed":500`},
}

// TestEveryTestPaymentMethod plays each payment method and destination that docs/API.md lists, with
// time that passes on request, and finds what the page says. No money moves, and nobody is paged.
func TestEveryTestPaymentMethod(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, withTestSide)
	for kind, all := range map[string][]testmode.Method{"/v1/charges": testmode.Methods(), "/v1/transfers": testmode.Destinations()} {
		want, source := testCharges, `"off_session":false,"payment_method"`
		if kind == "/v1/transfers" {
			want, source = testTransfers, `"destination"`
		}
		require.Len(t, all, len(want), "each has a case here")
		for _, m := range all {
			t.Run(m.Token, func(t *testing.T) {
				c, known := want[m.Token]
				require.True(t, known)
				q := request{acmeTest, kind, m.Token, `{"amount":500,"currency":"usd",` + source + `:"` + m.Token + `"}`, ""}
				first := w.send(w.ctx, us, q)
				require.NoError(t, first.Err)
				require.Equal(t, c.answer, first.Status, "%s", first.Body)
				require.Contains(t, string(first.Body), `"`+c.status+`"`)
				status, err := w.inspect(w.ctx, us, acmeTest, m.Token)
				require.NoError(t, err)
				if c.refund > 0 {
					w.refundOnTrial(t, objectID(t, first), m.Token, c)
				}
				if c.passes == 0 {
					return
				}
				w.passes(t, c.passes)
				until(t, "it ends", func() bool {
					r := w.read(us, acmeTest, kind+"/"+status.Object)
					if c.ends == "" {
						return r.Status == http.StatusNotFound // refused
					}
					return r.Status == http.StatusOK && strings.Contains(string(r.Body), c.ends)
				})
			})
		}
	}
	require.NotContains(t, w.log.String(), "page: ")
	w.judge.once(t, 0)
}

// TestATestChargeIsNotRefundedTwice: the test provider refuses what would exceed the charge, as others
// do, also by a refund that waits, in any region, and the books of the deployment stay right.
func TestATestChargeIsNotRefundedTwice(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, withTestSide)
	charge := w.send(w.ctx, us, request{acmeTest, "/v1/charges", "order", `{"amount":3000,"currency":"usd","payment_method":"pm_card_refund_waits"}`, ""})
	require.Equal(t, http.StatusCreated, charge.Status, "%s", charge.Body)
	refund := func(region, key string, amount int) (int, string) {
		r := w.send(w.ctx, region, request{acmeTest, "/v1/refunds", key, fmt.Sprintf(`{"charge":%q,"amount":%d}`, objectID(t, charge), amount), ""})
		require.NoError(t, r.Err)
		return r.Status, string(r.Body)
	}
	status, body := refund(us, "most", 2500)
	require.Equal(t, http.StatusAccepted, status, body)
	status, body = refund(eu, "more", 501)
	require.Equal(t, http.StatusBadRequest, status, body)
	require.Contains(t, body, "refund_exceeds_charge")
	status, body = refund(asia, "rest", 500)
	require.Equal(t, http.StatusAccepted, status, body)
	w.passes(t, 25*time.Hour)
	until(t, "both are booked", func() bool {
		return strings.Contains(string(w.read(eu, acmeTest, "/v1/charges/"+objectID(t, charge)).Body), `"amount_refunded":3000`)
	})
	status, body = refund(us, "again", 1)
	require.Equal(t, http.StatusBadRequest, status, body)
	w.judge.once(t, 0)
}

// TestAnUnknownOutcomeIsGivenUp: pm_card_unknown is answered as docs/API.md says until Homeward has given
// up, which a day does but for the last attempts, and every retry reads the same then.
func TestAnUnknownOutcomeIsGivenUp(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, withTestSide)
	q := request{acmeTest, "/v1/charges", "lost", `{"amount":500,"currency":"usd","payment_method":"pm_card_unknown"}`, ""}
	status := func() keyStatus {
		s, err := w.inspect(w.ctx, asia, acmeTest, q.key)
		require.NoError(t, err)
		return s
	}
	reads := func() *answer.Answer { return w.read(eu, acmeTest, "/v1/charges/"+status().Object) }
	deferred := func() (n int) { // attempts that are over: no time passes for one that is under way
		for _, e := range status().Timeline {
			if e.Event == string(claim.EventDeferred) {
				n++
			}
		}
		return n
	}
	for _, region := range regions {
		require.True(t, isUndecided(w.send(w.ctx, region, q)), region)
	}
	require.Equal(t, "IN_FLIGHT", status().State)
	read := reads()
	require.Equal(t, []any{http.StatusServiceUnavailable, "outcome_unknown", "same_key"}, []any{read.Status, read.Problem.Error, read.Problem.Retry})
	const few = 10
	for n, by := 0, 24*time.Hour; status().State == "IN_FLIGHT"; n, by = n+1, 5*time.Minute {
		require.Less(t, n, few)
		asked := deferred()
		w.passes(t, by)
		until(t, "Homeward has asked again", func() bool { return deferred() > asked || status().State != "IN_FLIGHT" })
	}
	require.Equal(t, "FAILED_TERMINAL", status().State)
	final := w.send(w.ctx, us, q)
	require.NoError(t, final.Err)
	require.Equal(t, []any{http.StatusServiceUnavailable, "outcome_unknown", "new_key"}, []any{final.Status, final.Problem.Error, final.Problem.Retry})
	for _, region := range regions {
		again := w.send(w.ctx, region, q)
		require.Equal(t, final.Body, again.Body)
		require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	}
	read = reads()
	require.Equal(t, []any{http.StatusServiceUnavailable, string(final.Body)}, []any{read.Status, string(read.Body)})
	w.passes(t, 25*time.Hour)
	w.at(eu, q, http.StatusGone)
	require.NotContains(t, w.log.String(), "page: ")
	w.judge.once(t, 0)
}

// refundOnTrial refunds a test charge.
func (w *world) refundOnTrial(t *testing.T, charge, key string, c trial) {
	refund := w.send(w.ctx, us, request{acmeTest, "/v1/refunds", key + "-refund", `{"charge":"` + charge + `"}`, ""})
	require.NoError(t, refund.Err)
	require.Equal(t, c.refund, refund.Status, "%s", refund.Body)
	w.passes(t, 24*time.Hour)
	until(t, "the refund ends", func() bool {
		r := w.read(us, acmeTest, "/v1/refunds/"+objectID(t, refund))
		return r.Status == http.StatusOK && strings.Contains(string(r.Body), c.refundEnds)
	})
}

// passes lets time pass as a merchant does.
func (w *world) passes(t *testing.T, by time.Duration) {
	t.Helper()
	r := w.send(w.ctx, eu, request{acmeTest, "/v1/test-clock", "", fmt.Sprintf(`{"advance":%d}`, int(by.Seconds())), ""})
	require.NoError(t, r.Err)
	require.Equal(t, http.StatusOK, r.Status, "%s", r.Body)
}

// TestTestPaymentsAreUndone: what a merchant undoes with a live key, it can try with a test key: a key
// that is given up, a hold that is captured in part or canceled, an order that is not paid in time.
func TestTestPaymentsAreUndone(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, withTestSide)
	makes := func(key, more string) *answer.Answer {
		return w.send(w.ctx, us, request{acmeTest, "/v1/charges", key, `{"amount":500,"currency":"usd",` + more + `}`, ""})
	}
	until := func(key, what string) {
		status, err := w.inspect(w.ctx, us, acmeTest, key)
		require.NoError(t, err)
		until(t, key+" has "+what, func() bool {
			return strings.Contains(string(w.read(us, acmeTest, "/v1/charges/"+status.Object).Body), what)
		})
	}
	for _, key := range []string{"paid", "never-sent", "provider-down"} {
		switch key {
		case "paid":
			require.Equal(t, http.StatusCreated, makes(key, `"payment_method":"pm_card_visa"`).Status)
		case "provider-down":
			require.Equal(t, http.StatusServiceUnavailable, makes(key, `"payment_method":"pm_card_provider_down"`).Status)
		}
		until := func() *answer.Answer {
			return w.send(w.ctx, eu, request{acmeTest, "/v1/idempotency-keys/" + key + "/cancel", "", "{}", ""})
		}
		r := until()
		for deadline := time.Now().Add(patience); r.Status == http.StatusAccepted && time.Now().Before(deadline); r = until() {
			_ = wait(w.ctx, pauseAfter(r))
		}
		require.Equal(t, http.StatusOK, r.Status, "%s: %s", key, r.Body)
		require.Contains(t, string(r.Body), map[string]string{"paid": "refunded", "never-sent": "unused", "provider-down": "not_made"}[key])
	}
	until("paid", `"amount_refunded":500`)
	require.Equal(t, http.StatusGone, makes("never-sent", `"payment_method":"pm_card_visa"`).Status)

	for key, order := range map[string]request{
		"captured": {acmeTest, "/capture", "capture", `{"amount":300}`, ""}, "let-go": {acmeTest, "/cancel", "let-go-now", `{}`, ""},
	} {
		held := makes(key, `"capture_method":"manual","payment_method":"pm_card_visa"`)
		require.Equal(t, http.StatusAccepted, held.Status, "%s", held.Body)
		require.Contains(t, string(held.Body), `"status":"requires_capture"`)
		order.path = "/v1/charges/" + objectID(t, held) + order.path
		require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, w.send(w.ctx, eu, order).Status)
	}
	until("captured", `"amount_captured":300`)
	until("let-go", `"not_found"`)

	in := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	require.Equal(t, http.StatusServiceUnavailable, makes("late", `"expires_at":"`+in+`","payment_method":"pm_card_provider_down"`).Status)
	w.passes(t, 2*time.Hour)
	until("late", `"not_found"`)
	late := makes("late", `"expires_at":"`+in+`","payment_method":"pm_card_provider_down"`)
	require.Equal(t, http.StatusPaymentRequired, late.Status)
	require.Contains(t, string(late.Body), `"code":"expired"`)
	w.judge.once(t, 0)
}

// TestATestClockMovesNoLiveTenant: a live key cannot let time pass, and a test key does it for its own
// side alone.
func TestATestClockMovesNoLiveTenant(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, withTestSide)
	paid := w.at(us, charge("k", 100), http.StatusCreated)
	w.at(us, charge("k", 100).of(acmeTest), http.StatusCreated)
	w.at(us, request{acme, "/v1/test-clock", "", `{"advance":90000}`, ""}, http.StatusForbidden)
	w.passes(t, 25*time.Hour)
	for _, region := range regions {
		w.at(region, charge("k", 100).of(acmeTest), http.StatusGone)
		require.Equal(t, paid.Body, w.at(region, charge("k", 100), http.StatusCreated).Body)
	}
	w.passes(t, 24*time.Hour)
	again := w.at(asia, charge("k", 200).of(acmeTest), http.StatusCreated)
	require.Equal(t, again.Body, w.at(eu, charge("k", 200).of(acmeTest), http.StatusCreated).Body)
	require.Equal(t, paid.Body, w.at(eu, charge("k", 100), http.StatusCreated).Body)
	w.judge.once(t, 1)
}

// TestTestTrafficIsNotMeasured: what test keys do is in no metric by which a deployment is watched,
// also where it comes to a ghost.
func TestTestTrafficIsNotMeasured(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, func(c *node.ClusterConfig) {
		withTestSide(c)
		c.MetricsListen = "127.0.0.1:0"
	})
	watched := []*meter.Metric{
		meter.Requests, meter.TenantRequests, meter.HTTPDuration, meter.LayerDuration, meter.Claims, meter.Mismatches, meter.Generations, meter.Settled,
		meter.TakeOvers, meter.GivenUp, meter.ProviderDuration, meter.Notices, meter.NoticesClosed, meter.Ghosts, meter.Compensations, meter.Fallen,
	}
	w.at(us, charge("live", 1), http.StatusCreated)
	count := func() (all []float64) {
		s := w.scrape()
		for _, m := range watched {
			n, _ := s.sum(series(m))
			all = append(all, n)
		}
		return all
	}
	before := count()
	for _, token := range []string{"pm_card_visa", "pm_card_insufficient_funds", "pm_card_no_answer", "pm_card_ghost", "pm_card_fails_later"} {
		w.send(w.ctx, us, request{acmeTest, "/v1/charges", token, `{"amount":1,"currency":"usd","payment_method":"` + token + `"}`, ""})
	}
	w.at(eu, charge("pm_card_visa", 2).of(acmeTest), http.StatusUnprocessableEntity)
	w.at(eu, charge(stamped(t, us), 3).of(acmeTest), http.StatusCreated) // by a forward
	ghost, err := w.inspect(w.ctx, us, acmeTest, "pm_card_ghost")
	require.NoError(t, err)
	w.passes(t, 72*time.Hour)
	until(t, "the ghost is refunded", func() bool {
		return strings.Contains(string(w.read(us, acmeTest, "/v1/charges/"+ghost.Object).Body), `"status":"refunded"`)
	})
	require.Equal(t, before, count())
	w.at(us, charge("live-2", 1), http.StatusCreated)
	require.NotEqual(t, before, count())
}

// A merchant tries every payment method, one a day, under the keys of its live orders of that day, and
// lets the day pass. After a month the live payments are as they were made, to the byte, the statement
// agrees with the books, and every test key is free.
func monthOfTestMode(w *story) {
	w.begin(setting{caps: capable, policy: patient})
	endless := map[string]bool{"pm_card_unknown": true, "pm_card_provider_down": true, "pm_card_slow": true}
	var tokens []string
	for _, m := range testmode.Methods() {
		if !endless[m.Token] {
			tokens = append(tokens, m.Token)
		}
	}
	const days = 31
	var orders []request
	var paid []*answer.Answer
	statuses := map[int]int{}
	for day := range days {
		q := charge(fmt.Sprintf("order-%d", day), 1000+day)
		if day%2 == 1 {
			q.key = stamped(w.t, regions[day%3])
		}
		orders, paid = append(orders, q), append(paid, w.at(regions[day%3], q, http.StatusCreated))
		try := q.of(acmeTest)
		try.body = fmt.Sprintf(`{"amount":%d,"currency":"usd","off_session":false,"payment_method":%q}`, 500+day, tokens[day%len(tokens)])
		r := w.send(w.ctx, regions[(day+1)%3], try)
		require.NoError(w.t, r.Err)
		statuses[r.Status]++
		require.NotEqual(w.t, paid[day].Body, r.Body)
		w.passes(w.t, 24*time.Hour)
	}
	w.passes(w.t, 10*24*time.Hour) // until the last dispute is decided
	require.Greater(w.t, len(statuses), 3, "of many outcomes: %v", statuses)
	for i, q := range orders {
		w.replays(q, paid[i])
	}
	b := w.close(ending{claims: fmt.Sprintf("charge COMPLETED %d", days), charges: days})
	require.Equal(w.t, int64(days*1000+days*(days-1)/2), -b.balances[account{ledger.Merchant(w.liveTenant()), "usd"}])
	w.passes(w.t, 49*time.Hour) // since the last of them was settled
	for i, q := range orders {
		other := q.of(acmeTest)
		other.body = `{"amount":7,"currency":"usd","payment_method":"pm_card_visa"}`
		w.at(regions[i%3], other, http.StatusCreated) // the key is free
		w.replays(q, paid[i])
	}
	w.judge.once(w.t, days)
	w.note("%d live charges beside %d test charges of these statuses: %v", days, 2*days, statuses)
}

// liveTenant is the id of acme.
func (w *world) liveTenant() string { return claim.LiveTenant(w.testTenant(w.cluster)) }
