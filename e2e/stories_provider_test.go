package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/recon"
)

// A charge with an expiry is sent, and no answer comes back. Its time passes, the merchant gets an
// event that it has expired, and sells to another payer. Then the money moves, and the provider
// reports it: late, twice, out of order, to two regions.
func ghostPayment(w *story) {
	caps := capable
	caps.Timeout, caps.SettleWindow = 5*time.Second, 100*time.Millisecond
	w.begin(setting{caps: caps, policy: patient, notified: []string{eu, asia}, notices: simulator.Notices{Hold: true, Duplicate: 1, RetryAfter: 100 * time.Millisecond}})
	healthy := charge("order-0", 100)
	paid := w.everywhere(healthy, http.StatusCreated)

	w.faults(lost)
	ghosts := []request{payable("order-1", 20000, "pm_card_visa"), payable(stamped(w.t, asia), 30000, "pm_card_visa")}
	var expired []*answer.Answer
	var answers []func(int) *answer.Answer
	for _, q := range ghosts {
		w.unknown(us, q)
		answers = append(answers, w.retrying(q))
	}
	for i, q := range ghosts {
		r := answers[i](http.StatusPaymentRequired)
		require.Equal(w.t, "expired", r.Problem.Code)
		w.replays(q, r)
		expired = append(expired, r)
	}
	w.judge.once(w.t, 1)

	w.faults(simulator.Faults{})
	require.GreaterOrEqual(w.t, w.judge.ReleaseLate(), len(ghosts))
	w.judge.once(w.t, 1+len(ghosts))
	_, err := w.judge.ReleaseNotices(simulator.ReleaseReversed)
	require.NoError(w.t, err)
	w.quiet()

	for i, q := range ghosts {
		w.replays(q, expired[i])
		object := w.object(q)
		refs := w.references(object)
		require.Len(w.t, refs, 1)
		w.ghost(object, refs[0], int64(q.amount(w.t)))
	}
	w.replays(healthy, paid)
	// In each of two regions: of each ghost one, of each refund and of what is well one.
	require.Equal(w.t, map[notice.Status]int{notice.ProcessedCompensated: 4, notice.ProcessedOK: 6}, w.notices())
	w.close(ending{
		claims:  "charge COMPLETED 1, charge FAILED_TERMINAL 2, compensation COMPLETED 2",
		charges: 3, refunds: 2,
	})
}

// The provider has no look-ups, and never answers: the charge is given up, which is final. Then the
// provider reports that it was made.
func abandonedGhost(w *story) {
	caps := psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters}
	w.begin(setting{
		caps: caps, sim: simulator.Config{NoLookup: true}, notified: []string{asia}, notices: simulator.Notices{Duplicate: 1},
		policy: func(p *claim.Policy) { p.MaxUnknowns = 4 },
	})
	w.faults(lost)
	q := charge("order-1", 20000)
	gone := w.everywhere(q, http.StatusServiceUnavailable)
	require.Equal(w.t, "outcome_unknown", gone.Problem.Error)
	require.Equal(w.t, "new_key", gone.Problem.Retry)
	w.judge.once(w.t, 0)

	w.faults(simulator.Faults{})
	require.Positive(w.t, w.judge.ReleaseLate())
	w.quiet()
	w.replays(q, gone)
	object := w.object(q)
	refs := w.references(object)
	require.Len(w.t, refs, 1)
	w.ghost(object, refs[0], 20000)
	require.Equal(w.t, map[notice.Status]int{notice.ProcessedCompensated: 1, notice.ProcessedOK: 1}, w.notices())
	w.close(ending{claims: "charge FAILED_TERMINAL 1, compensation COMPLETED 1", charges: 1, refunds: 1})
}

// There is too little money, and no retry comes until the charge expires: the
// sweeper closes it. Then the provider, which tries declined cards again by itself,
// has charged it after all.
func declinedGhost(w *story) {
	w.begin(setting{caps: capable, notified: []string{eu}})
	q := payable("order-1", 20000, "pm_card_insufficient_funds")
	declined := w.answered(asia, q, http.StatusPaymentRequired)
	require.Equal(w.t, "insufficient_funds", declined.Problem.Code)
	var status keyStatus
	until(w.t, "the sweeper has closed the charge", func() bool {
		var err error
		status, err = w.inspect(w.ctx, us, q.tenant, q.key)
		require.NoError(w.t, err)
		return status.State == "FAILED_TERMINAL"
	})
	var closed bool
	for _, e := range status.Timeline {
		closed = closed || e.Event == "closed"
	}
	require.True(w.t, closed, "%v", status.Timeline)
	calls := w.judge.Stats().Calls
	expired := w.everywhere(q, http.StatusPaymentRequired)
	require.Equal(w.t, "expired", expired.Problem.Code)
	require.Equal(w.t, calls, w.judge.Stats().Calls)

	w.unasked(w.judge, status.Object, 20000)
	w.quiet()
	w.replays(q, expired)
	refs := w.references(status.Object)
	require.Len(w.t, refs, 1)
	w.ghost(status.Object, refs[0], 20000)
	require.Equal(w.t, map[notice.Status]int{notice.ProcessedCompensated: 1, notice.ProcessedOK: 1}, w.notices())
	w.close(ending{claims: "charge FAILED_TERMINAL 1, compensation COMPLETED 1", charges: 1, refunds: 1})
}

// line is the way to a provider. While it is down connections are refused.
type line struct{ down atomic.Bool }

// client dials anew for each call, so that no connection is open when the provider goes down.
func (l *line) client() *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if l.down.Load() {
				addr = "127.0.0.1:1" // where no server listens
			}
			return dialer.DialContext(ctx, network, addr)
		},
	}}
}

// The provider answers 503, then not at all, until every region has opened its
// circuit; then it is back. Merchants never stop asking.
func providerDown(w *story) {
	const each = 8
	l := new(line)
	w.begin(setting{caps: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true, Timeout: 5 * time.Second, SettleWindow: 50 * time.Millisecond}, client: l.client()})
	w.faults(simulator.Faults{ErrorBefore: 1})
	var all []request
	var answers []func(int) *answer.Answer
	ask := func() {
		for i := range each {
			for _, r := range regions {
				q := charge(stamped(w.t, r), 100+len(all))
				if i%4 == 0 {
					q = transfer(fmt.Sprint("payout-", len(all)), 100+len(all))
				}
				all = append(all, q)
				answers = append(answers, w.retrying(q))
			}
		}
	}
	ask()
	until(w.t, "the first charges have failed", func() bool { return w.judge.Stats().ErrorsBefore >= each })
	l.down.Store(true)
	ask()
	until(w.t, "every region has opened its circuit", func() bool {
		opened := 0
		for _, r := range regions {
			for line := range strings.Lines(w.log.String()) {
				if strings.Contains(line, "provider circuit changed") && strings.Contains(line, "region="+r) && strings.Contains(line, "to=open") {
					opened++
					break
				}
			}
		}
		return opened == len(regions)
	})
	w.judge.once(w.t, 0)
	fresh := charge(stamped(w.t, us), 99)
	w.unknown(us, fresh)
	all, answers = append(all, fresh), append(answers, w.retrying(fresh))

	w.faults(simulator.Faults{})
	l.down.Store(false)
	charges := 0
	for i, q := range all {
		first := answers[i](http.StatusCreated)
		require.Equal(w.t, 1, w.judge.moved(objectID(w.t, first)))
		w.replays(q, first)
		if q.path == "/v1/charges" {
			charges++
		}
	}
	w.judge.once(w.t, len(all))
	transfers := len(all) - charges
	w.close(ending{
		claims:  fmt.Sprintf("charge COMPLETED %d, transfer COMPLETED %d", charges, transfers),
		charges: charges, transfers: transfers,
	})
}

// A provider without dedupe, with look-ups: one call charged and lost its reply, another never
// arrived.
func noDedupe(w *story) {
	w.begin(setting{
		sim: simulator.Config{IgnoreKeys: true}, policy: patient,
		caps: psp.Capabilities{Lookup: true, Timeout: 5 * time.Second, SettleWindow: 100 * time.Millisecond},
	})
	charged, absent := charge("order-1", 20000), charge(stamped(w.t, eu), 30000)
	for i, f := range []simulator.Faults{{DropReply: 1}, {ErrorBefore: 1}} {
		w.faults(f)
		w.unknown(us, []request{charged, absent}[i])
		w.faults(simulator.Faults{})
	}
	for _, q := range []request{charged, absent} {
		first := w.everywhere(q, http.StatusCreated)
		require.Equal(w.t, 1, w.judge.moved(objectID(w.t, first)))
	}
	w.judge.once(w.t, 2)
	w.close(ending{claims: "charge COMPLETED 2", charges: 2})
}

// A provider without dedupe and look-ups charges and loses its reply. Its notice reports the
// charge; another one reports a second charge.
func settledByNotice(w *story) {
	s := incapable
	s.policy, s.notified, s.notices = patient, []string{asia}, simulator.Notices{Hold: true}
	w.begin(s)
	q := charge("order-1", 20000)
	w.faults(simulator.Faults{DropReply: 1})
	w.unknown(us, q)
	answer := w.retrying(q)
	w.faults(simulator.Faults{})
	until(w.t, "a retry has been sent", func() bool {
		s, err := w.inspect(w.ctx, eu, q.tenant, q.key)
		require.NoError(w.t, err)
		return s.Attempts > 2
	})
	w.judge.once(w.t, 1)
	n, err := w.judge.ReleaseNotices(simulator.ReleaseInOrder)
	require.NoError(w.t, err)
	require.Equal(w.t, 1, n)
	first := answer(http.StatusCreated)
	w.replays(q, first)
	w.judge.once(w.t, 1)
	object := objectID(w.t, first)

	w.unasked(w.judge, object, 20000) // a gateway on the way repeats the call
	w.quiet()
	w.replays(q, first)
	refs := w.references(object)
	require.Len(w.t, refs, 2)
	w.ghost(object, refs[1], 20000)
	require.Equal(w.t, map[notice.Status]int{notice.ProcessedCompensated: 1, notice.ProcessedOK: 2}, w.notices())
	w.close(ending{claims: "charge COMPLETED 1, compensation COMPLETED 1", charges: 2, refunds: 1})
}

// The same provider sends no notices either. The charge is given up; the statement
// shows it, and another one beside a charge that was answered.
func foundByReconciliation(w *story) {
	s := incapable
	s.policy = func(p *claim.Policy) { p.MaxUnknowns = 3 }
	w.begin(s)
	lostCharge, twice := charge(stamped(w.t, asia), 20000), charge("order-2", 30000)
	w.faults(simulator.Faults{DropReply: 1})
	gone := w.everywhere(lostCharge, http.StatusServiceUnavailable)
	require.Equal(w.t, "new_key", gone.Problem.Retry)
	w.faults(simulator.Faults{})
	paid := w.everywhere(twice, http.StatusCreated)
	w.unasked(w.judge, objectID(w.t, paid), 30000)

	b := w.read(w.judge, judged)
	require.Equal(w.t, map[recon.Class]int{recon.ChargedButUnknown: 1, recon.Duplicate: 1}, b.compared.Mismatches)
	// Two regions heal at once, each twice.
	for range 2 {
		var done sync.WaitGroup
		errs := make(chan error, 2*len(b.mismatches))
		for _, m := range b.mismatches {
			require.True(w.t, m.Refundable, "%+v", m)
			for _, r := range []string{eu, asia} {
				done.Go(func() {
					progress, detail, err := w.cluster.Region(r).Compensator().Compensate(w.ctx, m.Ghost(judged))
					if err == nil && progress == notice.Limbo {
						err = errors.New(detail)
					}
					errs <- err
				})
			}
		}
		done.Wait()
		for range cap(errs) {
			require.NoError(w.t, <-errs)
		}
	}
	w.quiet()
	for _, m := range b.mismatches {
		w.ghost(m.Reference, m.ProviderRef, m.Stated)
		w.note("healed: %s %s %d %s: %s", m.Class, m.ProviderRef, m.Stated, m.StatedCurrency, m.Detail)
	}
	w.replays(lostCharge, gone)
	w.replays(twice, paid)
	w.close(ending{claims: "charge COMPLETED 1, charge FAILED_TERMINAL 1, compensation COMPLETED 2", charges: 3, refunds: 2})
}

// A new provider replaces an older one. The older one's statement has charges without a record:
// reconciliation names them, and refunds none of them.
func olderProvider(w *story) {
	const older = "older"
	rows, dir, old := newBackendOn(w.t, w.on), w.t.TempDir(), newJudgeOf(w.t, incapable.sim)
	w.beginOn(rows, dir, old, older, incapable)
	q := charge("order-1", 20000)
	paid := w.everywhere(q, http.StatusCreated)
	w.quiet()
	require.NoError(w.t, w.cluster.Stop(w.ctx))

	w.beginOn(rows, dir, newJudge(w.t), judged, setting{caps: capable})
	w.replays(q, paid)
	w.everywhere(charge("order-2", 30000), http.StatusCreated)
	unrecorded, err := claim.NewObjectID("ch", codes[eu], nil)
	require.NoError(w.t, err)
	w.unasked(old, unrecorded, 700)
	w.unasked(old, "invoice-1999", 900)
	for _, r := range regions { // nothing was sent; a node that has the provider would do it
		refused := w.send(w.ctx, r, refund("refund-1", objectID(w.t, paid), 0))
		require.NoError(w.t, refused.Err)
		require.Equal(w.t, http.StatusServiceUnavailable, refused.Status)
		require.Equal(w.t, []string{"provider_not_available", "same_key"}, []string{refused.Problem.Code, refused.Problem.Retry})
	}

	b := w.read(old, older)
	require.Equal(w.t, 1, b.compared.Agree)
	require.Equal(w.t, map[recon.Class]int{recon.ChargedButUnknown: 2}, b.compared.Mismatches)
	named := map[string]int64{}
	for _, m := range b.mismatches {
		require.False(w.t, m.Refundable, "%+v", m)
		named[m.Reference] = m.Stated
		w.note("named on the statement of the older provider: %s, %s for %d %s: %s", m.ProviderRef, m.Reference, m.Stated, m.StatedCurrency, m.Detail)
	}
	require.Equal(w.t, map[string]int64{unrecorded: 700, "invoice-1999": 900}, named)
	w.close(ending{claims: "charge COMPLETED 2, refund FAILED_RETRY 1", charges: 1})
}

// refund asks for amount of a charge back; 0 for all of it.
func refund(key, charge string, amount int) request {
	body := fmt.Sprintf(`{"charge":%q,"amount":%d}`, charge, amount)
	if amount == 0 {
		body = fmt.Sprintf(`{"charge":%q,"reason":"returned"}`, charge)
	}
	return request{acme, "/v1/refunds", key, body, ""}
}

// Charges are refunded in parts and as a whole, never beyond their amount, and once.
func refunds(w *story) {
	w.begin(setting{caps: capable, notified: []string{us}})
	whole := objectID(w.t, w.everywhere(charge("order-1", 10000), http.StatusCreated))
	parts := objectID(w.t, w.everywhere(charge(stamped(w.t, asia), 10000), http.StatusCreated))
	foreign := charge("order-1", 500)
	foreign.tenant = globex
	foreignID := objectID(w.t, w.everywhere(foreign, http.StatusCreated))
	calls := w.judge.Stats().Calls

	// Refused without a call: an unknown charge, another tenant's, more than the rest.
	none, err := claim.NewObjectID("ch", codes[us], nil)
	require.NoError(w.t, err)
	for i, tc := range []struct {
		q    request
		code string
	}{{refund("no-1", none, 0), "no_such_charge"}, {refund("no-2", foreignID, 0), "no_such_charge"}, {refund("no-3", parts, 10001), "amount_too_large"}} {
		got := w.refusedEverywhere(tc.q, http.StatusBadRequest)
		require.Equal(w.t, tc.code, got.Problem.Code, "%d: %s", i, got.Body)
	}
	require.Equal(w.t, calls, w.judge.Stats().Calls)

	// The whole, although the provider loses its reply.
	w.faults(simulator.Faults{DropReply: 1})
	all := refund(stamped(w.t, us), whole, 0)
	w.unknown(eu, all)
	w.faults(simulator.Faults{})
	w.everywhere(all, http.StatusCreated)
	over := w.refusedEverywhere(refund("no-4", whole, 1), http.StatusBadRequest)
	require.Equal(w.t, "never", over.Problem.Retry)

	// Three parts of 4000 at once, under keys of their own: two fit into 10000.
	var answers []func() *answer.Answer
	for i, r := range regions {
		q := refund(fmt.Sprint("part-", i), parts, 4000)
		done := w.later(r, q)
		answers = append(answers, func() *answer.Answer {
			got := receive(w.t, "the answer to a refund", done)
			require.NoError(w.t, got.Err)
			if !got.Final() {
				got = w.settle(w.ctx, r, q, nil)
			}
			if got.Status == http.StatusCreated {
				w.replays(q, got)
			}
			return got
		})
	}
	statuses := map[int]int{}
	for _, answer := range answers {
		statuses[answer().Status]++
	}
	require.Equal(w.t, map[int]int{http.StatusCreated: 2, http.StatusBadRequest: 1}, statuses)
	w.everywhere(refund("rest", parts, 2000), http.StatusCreated)

	for _, charge := range []string{whole, parts} {
		_, code, _ := claim.ReadObjectID(charge)
		home, _ := homeOf(code)
		booked, found, err := w.store().Transaction(w.ctx, home, charge)
		require.NoError(w.t, err)
		require.True(w.t, found, charge)
		back, err := w.store().Reversals(w.ctx, charge)
		require.NoError(w.t, err)
		sum := int64(0)
		for _, r := range back {
			require.Equal(w.t, ledger.Refund, r.Kind)
			require.Equal(w.t, [2]ledger.Account{booked.Credit, booked.Debit}, [2]ledger.Account{r.Debit, r.Credit})
			sum += r.Amount
		}
		require.Equal(w.t, booked.Amount, sum)
	}
	b := w.close(ending{claims: "charge COMPLETED 3, refund COMPLETED 4, refund FAILED_RETRY 5", charges: 3, refunds: 4})
	for a, balance := range b.balances {
		if strings.HasPrefix(string(a.name), "merchant:acme") {
			require.Zero(w.t, balance, "all of it went back")
		}
	}
}
