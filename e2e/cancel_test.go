package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// canceled is the answer to a merchant who gave a key up.
type canceled struct {
	Object  string `json:"object"`
	Key     string `json:"idempotency_key"`
	Outcome string `json:"outcome"`
	Charge  string `json:"charge"`
	Refund  string `json:"refund"`
}

// giveUp cancels q's key once.
func (c *caller) giveUp(ctx context.Context, region string, q request) (*answer.Answer, canceled) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base(region)+"/v1/idempotency-keys/"+url.PathEscape(q.key)+"/cancel", nil)
	if err != nil {
		return &answer.Answer{Err: err}, canceled{}
	}
	req.Header.Set("Authorization", "Bearer "+q.tenant)
	r := c.do(req)
	var is canceled
	if r.Err == nil && r.Status < http.StatusBadRequest {
		r.Err = json.Unmarshal(r.Body, &is)
	}
	return r, is
}

// gaveUp cancels q's key until it is known what became of it, and checks that this is what says.
func (c *caller) gaveUp(ctx context.Context, t testing.TB, region string, q request, says string) (is canceled) {
	t.Helper()
	var r *answer.Answer
	until(t, q.key+" is canceled", func() bool {
		r, is = c.giveUp(ctx, region, q)
		over := r.Status == http.StatusOK || r.Problem.Retry != "" && r.Problem.Retry != "same_key"
		if r.Err != nil || !over {
			_ = wait(ctx, 50*time.Millisecond)
			return false
		}
		return true
	})
	if r.Status != http.StatusOK {
		require.Equal(t, says, r.Problem.Code, "%v", r)
		return is
	}
	require.Equal(t, says, is.Outcome, "%v", r)
	require.Equal(t, "cancellation", is.Object)
	require.Equal(t, q.key, is.Key)
	return is
}

// refusedAll asserts that every region refuses q's key, whatever is asked, with the same bytes.
func (c *caller) refusedAll(ctx context.Context, t testing.TB, q request) {
	t.Helper()
	first := ""
	for _, region := range regions {
		r := c.settle(ctx, region, q, nil)
		require.NoError(t, r.Err)
		require.Equal(t, http.StatusGone, r.Status, "%s", r.Body)
		require.Equal(t, "idempotency_key_canceled", r.Problem.Error)
		if first == "" {
			first = r.Remembered()
		}
		require.Equal(t, first, r.Remembered())
	}
}

// byKind counts what the provider moved.
func (j *judge) byKind(kind psp.Kind) (n int) {
	for _, e := range j.Effects() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// TestCancel: what each state of a key comes to when its merchant gives it up, from every region.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := startWorld(t, nil, lasting)
	t.Run("never used", func(t *testing.T) {
		for _, key := range []string{"never-1", stamped(t, asia)} {
			q := charge(key, 500)
			for _, r := range regions {
				require.Empty(t, w.gaveUp(w.ctx, t, r, q, "unused").Charge)
			}
			w.refusedAll(w.ctx, t, q)
			w.refusedAll(w.ctx, t, transfer(key, 1))
			status, err := w.inspect(w.ctx, us, q.tenant, key)
			require.NoError(t, err)
			require.Equal(t, "FAILED_TERMINAL", status.State)
		}
		require.Empty(t, w.judge.Effects())
	})
	t.Run("made, and refunded in part", func(t *testing.T) {
		for i, key := range []string{"made-1", stamped(t, eu)} {
			q := charge(key, 1000)
			made := w.at(us, q, http.StatusCreated)
			id := objectID(t, made)
			w.at(eu, request{acme, "/v1/refunds", fmt.Sprintf("part-%d", i), fmt.Sprintf(`{"charge":%q,"amount":300}`, id), ""}, http.StatusCreated)
			first := w.gaveUp(w.ctx, t, asia, q, "refunded")
			require.Equal(t, id, first.Charge)
			for _, r := range regions {
				require.Equal(t, first, w.gaveUp(w.ctx, t, r, q, "refunded"))
				require.Equal(t, made.Remembered(), w.at(r, q, http.StatusCreated).Remembered(), "what was answered stays")
			}
			var back int64
			for _, e := range w.judge.Effects() {
				if e.Kind == psp.KindRefund && e.Reference == first.Refund {
					back += e.Amount
				}
			}
			require.EqualValues(t, 700, back)
		}
	})
	t.Run("refunded in full before", func(t *testing.T) {
		q := charge("made-2", 1000)
		id := objectID(t, w.at(us, q, http.StatusCreated))
		w.at(eu, request{acme, "/v1/refunds", "full", fmt.Sprintf(`{"charge":%q}`, id), ""}, http.StatusCreated)
		require.Empty(t, w.gaveUp(w.ctx, t, us, q, "refunded").Refund)
	})
	t.Run("money that cannot be called back", func(t *testing.T) {
		q := transfer("payout-1", 1000)
		made := w.at(us, q, http.StatusCreated)
		for _, r := range regions {
			w.gaveUp(w.ctx, t, r, q, "already_made")
			require.Equal(t, made.Remembered(), w.at(r, q, http.StatusCreated).Remembered())
		}
	})
	t.Run("declined", func(t *testing.T) {
		for method, status := range map[string]int{"pm_card_stolen": http.StatusPaymentRequired, "pm_card_insufficient_funds": http.StatusGone} {
			q := request{acme, "/v1/charges", "no-" + method, fmt.Sprintf(`{"amount":1000,"currency":"usd","payment_method":%q}`, method), ""}
			w.at(us, q, http.StatusPaymentRequired)
			for _, r := range regions {
				w.gaveUp(w.ctx, t, r, q, "not_made")
			}
			require.Equal(t, status, w.settle(w.ctx, eu, q, nil).Status)
		}
	})
	t.Run("in flight", func(t *testing.T) {
		for _, key := range []string{"slow-1", stamped(t, asia)} {
			before := [2]int{w.judge.byKind(psp.KindCharge), w.judge.byKind(psp.KindRefund)}
			g := w.judge.hold(t)
			q := charge(key, 4000)
			under := w.later(eu, q)
			receive(t, "the call", g.entered)
			r, is := w.giveUp(w.ctx, us, q)
			require.Equal(t, http.StatusAccepted, r.Status, "%v", r)
			require.Equal(t, "unknown", is.Outcome)
			require.Equal(t, "1", r.Header.Get("Retry-After"))
			g.release()
			w.judge.SetHooks(simulator.Hooks{})
			got := receive(t, "the answer to the payment", under)
			require.True(t, got.Status == http.StatusGone || isUndecided(got), "%v", got)
			is = w.gaveUp(w.ctx, t, asia, q, "refunded")
			require.NotEmpty(t, is.Refund)
			w.refusedAll(w.ctx, t, q)
			require.Equal(t, [2]int{before[0] + 1, before[1] + 1}, [2]int{w.judge.byKind(psp.KindCharge), w.judge.byKind(psp.KindRefund)})
			object := w.charged(w.ctx, t, us, q.tenant, is.Charge)
			require.Contains(t, string(object.Body), `"status":"failed"`)
			require.Contains(t, string(object.Body), `"compensations":[`)
		}
	})
	t.Run("at once", func(t *testing.T) {
		for i := range 12 {
			q := charge(fmt.Sprintf("race-%d", i), 100+i)
			if i%2 == 1 {
				q.key = stamped(t, regions[i%3])
			}
			paid := w.later(regions[i%3], q)
			is := make(chan canceled, 1)
			go func() { is <- w.gaveUpAny(w.ctx, regions[(i+1)%3], q) }()
			receive(t, "the payment's answer", paid)
			got := receive(t, "the cancellation's answer", is)
			final := w.settle(w.ctx, regions[(i+2)%3], q, nil)
			switch got.Outcome {
			case "unused", "not_made":
				require.Equal(t, http.StatusGone, final.Status)
				require.Zero(t, w.judge.moved(got.Charge))
			case "refunded":
				require.Contains(t, []int{http.StatusGone, http.StatusCreated}, final.Status)
				require.Equal(t, 1, w.judge.moved(got.Charge))
				require.Equal(t, 1, w.judge.moved(got.Refund))
			default:
				t.Fatalf("%+v", got)
			}
		}
	})
	t.Run("what is no request to cancel", func(t *testing.T) {
		for _, q := range []request{
			{acme, "/v1/idempotency-keys/order-1/cancel", "", `{"amount":1}`, ""},
			{acme, "/v1/idempotency-keys/order-1/cancel?x=1", "", "", ""},
			{acme, "/v1/idempotency-keys/a%20b/cancel", "", "", ""},
		} {
			require.Equal(t, http.StatusBadRequest, w.send(w.ctx, us, q).Status, q.path)
		}
	})
}

// gaveUpAny cancels q's key until it is known what became of it.
func (c *caller) gaveUpAny(ctx context.Context, region string, q request) (is canceled) {
	for {
		r, is := c.giveUp(ctx, region, q)
		if r.Err == nil && r.Status == http.StatusOK || wait(ctx, 20*time.Millisecond) != nil {
			return is
		}
	}
}

// charged reads a charge.
func (c *caller) charged(ctx context.Context, t testing.TB, region, tenant, id string) *answer.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base(region)+"/v1/charges/"+id, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+tenant)
	r := c.do(req)
	require.NoError(t, r.Err)
	require.Equal(t, http.StatusOK, r.Status, "%s", r.Body)
	return r
}
