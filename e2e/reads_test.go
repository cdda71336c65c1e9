package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// get reads a path of a region with further headers, given as name and value, and again while the store of a busy
// machine does not answer in time.
func (w *world) get(region, path string, headers ...string) *answer.Answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.base(region)+path, nil)
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+acme)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	var got *answer.Answer
	until(w.t, "the store has time for a read", func() bool {
		got = w.do(req)
		return got.Problem.Code != "store_unavailable"
	})
	if got.Status != http.StatusNotModified {
		require.NoError(w.t, got.Err)
	}
	return got
}

// reading is an object as the API has it.
type reading struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	OrderID  string `json:"order_id"`
	Captured int64  `json:"amount_captured"`
	Refunded int64  `json:"amount_refunded"`
	Refunds  []struct {
		ID     string `json:"id"`
		Amount int64  `json:"amount"`
		Status string `json:"status"`
	} `json:"refunds"`
	Disputes []struct {
		Amount int64  `json:"amount"`
		Status string `json:"status"`
	} `json:"disputes"`
	AsOf int64 `json:"as_of"`
}

var asOf = regexp.MustCompile(`"as_of":[0-9]+`)

// reads reads a path in each region: all answer the same, but for the time.
func (w *story) reads(path string, headers ...string) (got reading, tag string) {
	w.t.Helper()
	first := ""
	for _, region := range regions {
		a := w.get(region, path, headers...)
		require.Equal(w.t, http.StatusOK, a.Status, "%s: %s", region, a)
		body := asOf.ReplaceAllString(string(a.Body), "")
		if first == "" {
			first, tag = body, a.Header.Get("ETag")
			require.NoError(w.t, json.Unmarshal(a.Body, &got))
			require.NotZero(w.t, got.AsOf)
			require.NotEmpty(w.t, tag)
		}
		require.Equal(w.t, first, body, region)
		require.Equal(w.t, tag, a.Header.Get("ETag"), region)
		again := w.get(region, path, append(headers, "If-None-Match", tag)...)
		require.Equal(w.t, http.StatusNotModified, again.Status)
		require.Empty(w.t, again.Body)
	}
	return got, tag
}

// lists reads a list in each region: all answer the same.
func (w *story) lists(query string) (all []reading) {
	w.t.Helper()
	first := ""
	for _, region := range regions {
		a := w.get(region, "/v1/charges"+query)
		require.Equal(w.t, http.StatusOK, a.Status, "%s: %s", region, a)
		if first == "" {
			first = string(a.Body)
			var page struct{ Data []reading }
			require.NoError(w.t, json.Unmarshal(a.Body, &page))
			all = page.Data
		}
		require.Equal(w.t, first, string(a.Body), region)
	}
	return all
}

// TestNoReadIsStale: what was answered is read at once in every region, in both dialects and in lists,
// while its home is there and while others act for it. Reads elsewhere go to its rows, and to no replica.
func TestNoReadIsStale(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, func(c *node.ClusterConfig) { c.DeputyAfter = soon })
	readers := regions
	stripe := []string{"Stripe-Version", "2026-08-26.dahlia"}
	reads := func(path string, want ...string) {
		t.Helper()
		for _, region := range readers {
			for _, headers := range [][]string{nil, stripe} {
				w.network.ResetTrips()
				got := w.get(region, path, headers...)
				require.Equal(t, http.StatusOK, got.Status, "%s: %s", region, got)
				for _, text := range want {
					require.Contains(t, string(got.Body), text, region)
				}
				// A database's rows are in reach of a node that takes their home for lost, as it may on a busy machine.
				if region != eu && !onSQL() {
					require.NotZero(t, w.network.TotalTrips(), "%s has no answer of its own", region)
				}
			}
		}
	}
	for _, away := range []bool{false, true} {
		if away {
			w.takeAway(eu)
			readers = []string{us, asia}
		}
		entry := readers[len(readers)-1]
		q := charge(stamped(t, eu), 1000)
		q.body = fmt.Sprintf(`{"amount":1000,"currency":"usd","order_id":"o-%t","payment_method":"pm_card_visa"}`, away)
		id := objectID(t, w.at(entry, q, http.StatusCreated))
		reads("/v1/charges/"+id, `"amount_refunded":0`)
		reads(fmt.Sprintf("/v1/charges?order_id=o-%t", away), id, `"amount_refunded":0`)
		out := objectID(t, w.at(entry, transfer(stamped(t, eu), 300), http.StatusCreated))
		reads("/v1/transfers/"+out, out)
		for i, home := range []string{us, eu} {
			back := objectID(t, w.at(entry, refund(stamped(t, home), id, 100), http.StatusCreated))
			refunded := fmt.Sprintf(`"amount_refunded":%d`, 100*(i+1))
			reads("/v1/charges/"+id, refunded)
			reads(fmt.Sprintf("/v1/charges?order_id=o-%t", away), refunded)
			reads("/v1/refunds?charge="+id, back)
			if home == eu {
				reads("/v1/refunds/"+back, `"status":"succeeded"`)
			}
		}
		status, err := w.inspect(w.ctx, us, acme, q.key)
		require.NoError(t, err)
		require.Equal(t, "COMPLETED", status.State)
	}
}

// A charge is refunded under keys of three regions, and at the provider; one refund fails since, and
// the payer disputes the rest. Each region reads at once what is so, and a retry what was answered.
func readInThree(w *story) {
	w.begin(setting{caps: capable, notified: []string{us, eu}})
	q := charge("order-1", 10000)
	q.body = `{"amount":10000,"currency":"usd","payment_method":"pm_card_visa","order_id":"o-1"}`
	made := w.everywhere(q, http.StatusCreated)
	id := objectID(w.t, made)
	path := "/v1/charges/" + id
	got, tag := w.reads(path)
	require.Equal(w.t, reading{ID: id, Status: "succeeded", OrderID: "o-1", Captured: 10000, AsOf: got.AsOf}, got)

	back := map[string]string{}
	sum := int64(0)
	for i, region := range regions {
		amount := 1000 * (i + 1)
		one := w.answered(us, refund(stamped(w.t, region), id, amount), http.StatusCreated)
		back[region], sum = objectID(w.t, one), sum+int64(amount)
		var changed string
		got, changed = w.reads(path)
		require.Equal(w.t, sum, got.Refunded, "after the refund in %s", region)
		require.Len(w.t, got.Refunds, i+1)
		require.Equal(w.t, back[region], got.Refunds[0].ID)
		require.NotEqual(w.t, tag, changed)
		tag = changed
	}

	// One that the provider has not answered is in flight, in another region than its charge.
	gate := w.judge.hold(w.t)
	open := w.later(us, refund(stamped(w.t, eu), id, 50))
	receive(w.t, "the call of the refund", gate.entered)
	got, tag = w.reads(path)
	require.Equal(w.t, sum, got.Refunded)
	require.Len(w.t, got.Refunds, 4)
	last := got.Refunds[0]
	require.Equal(w.t, []any{int64(50), "processing"}, []any{last.Amount, last.Status})
	require.Contains(w.t, string(w.get(asia, "/v1/refunds?limit=1&charge="+id).Body), last.ID)
	require.Contains(w.t, string(w.get(asia, "/v1/refunds?limit=1&charge="+id, "Stripe-Version", "2026-08-26.dahlia").Body), `"status":"pending"`)
	gate.release()
	require.Equal(w.t, last.ID, objectID(w.t, receive(w.t, "the answer of the refund", open)))
	w.judge.SetHooks(simulator.Hooks{})
	sum += 50
	got, changed := w.reads(path)
	require.Equal(w.t, sum, got.Refunded)
	require.Len(w.t, got.Refunds, 4)
	require.Equal(w.t, []string{last.ID, "succeeded"}, []string{got.Refunds[0].ID, got.Refunds[0].Status})
	require.NotEqual(w.t, tag, changed)

	w.quiet()
	require.NoError(w.t, w.judge.Fail(w.stated(psp.KindRefund, back[asia])[0]))
	w.quiet()
	got, _ = w.reads(path)
	require.Equal(w.t, sum-3000, got.Refunded)
	require.Equal(w.t, []string{"succeeded", "failed", "succeeded", "succeeded"}, []string{got.Refunds[0].Status, got.Refunds[1].Status, got.Refunds[2].Status, got.Refunds[3].Status})
	for region, status := range map[string]string{asia: "failed", eu: "succeeded"} {
		got, _ := w.reads("/v1/refunds/" + back[region])
		require.Equal(w.t, status, got.Status)
	}

	ref := w.stated(psp.KindCharge, id)[0]
	w.happens(psp.KindRefund, ref, 500)
	dispute := w.happens(psp.KindDisputeOpened, ref, 6000)
	w.quiet()
	got, _ = w.reads(path)
	require.Equal(w.t, sum-3000+500, got.Refunded)
	require.Len(w.t, got.Refunds, 5)
	require.Len(w.t, got.Disputes, 1)
	require.Equal(w.t, "open", got.Disputes[0].Status)
	require.EqualValues(w.t, 6000, got.Disputes[0].Amount)
	w.happens(psp.KindDispute, dispute, 0)
	w.happens(psp.KindDisputeLost, dispute, 0)
	w.quiet()
	got, _ = w.reads(path)
	require.Equal(w.t, "lost", got.Disputes[0].Status)
	w.replays(q, made)

	// Another tenant reads nothing of it.
	for _, region := range regions {
		req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.base(region)+path, nil)
		require.NoError(w.t, err)
		req.Header.Set("Authorization", "Bearer "+globex)
		require.Equal(w.t, http.StatusNotFound, w.do(req).Status)
	}
	failed := charge("order-2", 700)
	gone := objectID(w.t, w.everywhere(failed, http.StatusCreated))
	w.quiet()
	require.NoError(w.t, w.judge.Fail(w.stated(psp.KindCharge, gone)[0]))
	w.quiet()
	got, _ = w.reads("/v1/charges/" + gone)
	require.Equal(w.t, reading{ID: gone, Status: "failed", AsOf: got.AsOf}, got)

	// A third charge is at home elsewhere. Each region lists all three, and finds that of the order.
	far := charge(stamped(w.t, asia), 800)
	third := objectID(w.t, w.answered(us, far, http.StatusCreated))
	var found []string
	for _, one := range w.lists("") {
		found = append(found, one.ID)
	}
	require.ElementsMatch(w.t, []string{third, gone, id}, found)
	one := w.lists("?order_id=o-1")
	require.Len(w.t, one, 1)
	require.Equal(w.t, reading{ID: id, Status: "succeeded", OrderID: "o-1", Captured: 10000, Refunded: sum - 3000 + 500, Disputes: one[0].Disputes}, one[0])
	require.Equal(w.t, "lost", one[0].Disputes[0].Status)
	next := w.lists("?limit=1&starting_after=" + found[0])
	require.Equal(w.t, found[1], next[0].ID)
	w.agrees()
}

// Three days later the claims are deleted. What became of a charge, a transfer and a refund is still
// read, and what happens then, too.
func readFromBooks(w *story) {
	w.begin(setting{caps: capable, virtual: true})
	id := objectID(w.t, w.everywhere(charge("order-1", 10000), http.StatusCreated))
	out := objectID(w.t, w.everywhere(transfer(stamped(w.t, asia), 300), http.StatusCreated))
	back := objectID(w.t, w.answered(us, refund(stamped(w.t, eu), id, 1000), http.StatusCreated))
	refused := charge("order-2", 10000)
	refused.body = `{"amount":10000,"currency":"usd","payment_method":"pm_card_stolen"}`
	w.everywhere(refused, http.StatusPaymentRequired)
	no := w.object(refused)
	w.quiet()
	home := func(object string) string {
		_, code, _ := claim.ReadObjectID(object)
		home, known := homeOf(code)
		require.True(w.t, known, object)
		return home
	}
	w.virtual.pass(w.t, 72*time.Hour)
	until(w.t, "the claims are deleted", func() bool {
		_, err := w.cluster.DB.Sweep(w.ctx, 100)
		require.NoError(w.t, err)
		for _, object := range []string{id, out, back, no} {
			_, found, err := w.store().ByObject(w.ctx, home(object), object)
			require.NoError(w.t, err)
			if found {
				return false
			}
		}
		return true
	})
	got, _ := w.reads("/v1/charges/" + id)
	require.Equal(w.t, []any{id, "succeeded", int64(10000), int64(1000), back}, []any{got.ID, got.Status, got.Captured, got.Refunded, got.Refunds[0].ID})
	for _, path := range []string{"/v1/transfers/" + out, "/v1/refunds/" + back} {
		got, _ := w.reads(path)
		require.Equal(w.t, "succeeded", got.Status)
	}
	require.Equal(w.t, http.StatusNotFound, w.get(eu, "/v1/charges/"+no).Status)

	// As the provider's notices have it booked, weeks later.
	booked := func(id string) ledger.Transaction {
		t, found, err := w.store().Transaction(w.ctx, home(id), id)
		require.NoError(w.t, err)
		require.True(w.t, found)
		return t
	}
	second := booked(id)
	second.ID, second.Kind, second.ProviderRef, second.Created = ledger.GhostID(second.Provider, "second"), ledger.Ghost, "second", time.Time{}
	second.Credit = ledger.Suspense(second.Tenant)
	_, code, _ := claim.ReadObjectID(id)
	returned, err := claim.NewObjectID("re", code, nil)
	require.NoError(w.t, err)
	given := second
	given.ID, given.Kind, given.ProviderRef = ledger.GhostRefundID(second.Provider, "second"), ledger.GhostRefund, "returned"
	given.Object, given.Reverses, given.Debit, given.Credit = returned, second.ID, second.Credit, second.Debit
	for _, later := range []ledger.Transaction{ledger.FailureOf(booked(back)), ledger.UnaskedOf(booked(id), ledger.DisputeOpened, "du_1", 10000), second, given} {
		_, err := w.store().Post(w.ctx, later)
		require.NoError(w.t, err)
	}
	got, _ = w.reads("/v1/charges/" + id)
	require.Zero(w.t, got.Refunded)
	require.Equal(w.t, "open", got.Disputes[0].Status)
	got, _ = w.reads("/v1/refunds/" + back)
	require.Equal(w.t, "failed", got.Status)
	got, _ = w.reads("/v1/refunds/" + returned)
	require.Equal(w.t, "succeeded", got.Status)
	require.Contains(w.t, string(w.get(eu, "/v1/refunds/"+returned).Body), `"charge":"`+id+`"`)
	all := w.lists("")
	require.Len(w.t, all, 1, "what was refused is in no list")
	require.Equal(w.t, []any{id, int64(0), "open"}, []any{all[0].ID, all[0].Refunded, all[0].Disputes[0].Status})
}
