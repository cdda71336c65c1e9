package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/recon"
	"github.com/homeward-io/homeward/payment/verify"
)

// stated are the provider's references of the movements of a kind for an object, or of
// all where it is "".
func (w *story) stated(kind psp.Kind, object string) (refs []string) {
	w.t.Helper()
	var statement bytes.Buffer
	require.NoError(w.t, w.judge.WriteStatement(&statement, simulator.Statement{Format: "csv", Adyen: w.adyen}))
	_, err := recon.Read(&statement, recon.CSV, func(l recon.Line) error {
		if (object == "" || l.Reference == object) && l.Kind == kind && !l.Failed {
			refs = append(refs, l.ID)
		}
		return nil
	})
	require.NoError(w.t, err)
	return refs
}

// balance sums up an account over all regions.
func (w *story) balance(account ledger.Account) (sum int64) {
	w.t.Helper()
	for _, r := range regions {
		all, err := w.store().Balances(w.ctx, r, ledger.AccountKey{}, 1000)
		require.NoError(w.t, err)
		for _, b := range all {
			if b.Account == account {
				sum += b.Debits - b.Credits
			}
		}
	}
	return sum
}

// agrees asserts that the statement, the books and the claims do, and that the books
// are in order.
func (w *story) agrees() {
	w.t.Helper()
	var statement bytes.Buffer
	require.NoError(w.t, w.judge.WriteStatement(&statement, simulator.Statement{Format: "csv", Adyen: w.adyen}))
	report, mismatches := w.reconcile(statement.Bytes(), judged)
	require.Empty(w.t, mismatches)
	require.Equal(w.t, report.Lines, report.Agree, "%+v", report)
	verified, err := verify.Books(w.ctx, w.store(), regions)
	require.NoError(w.t, err)
	require.True(w.t, verified.OK(), "%v", verified.Failures)
	w.show(fmt.Sprintf("%s: %s\n  %d lines agree; %d transactions verified; merchant %d, suspense %d\n", w.on, w.title,
		report.Agree, verified.Transactions, w.balance(ledger.Merchant(w.payee)), w.balance(ledger.Suspense(w.payee))))
}

// pages counts the log lines that begin so.
func (w *story) pages(begin string) int { return strings.Count(w.log.String(), begin) }

// A merchant's refund fails after it succeeded, a ghost's does, and a charge does. The books
// reverse each, the merchant gets an event, the ghost is refunded once more, and the statement
// agrees.
func failures(w *story) {
	w.begin(setting{caps: capable, notified: []string{us, eu}})
	first, second := objectID(w.t, w.everywhere(charge("order-1", 20000), http.StatusCreated)), objectID(w.t, w.everywhere(charge(stamped(w.t, asia), 700), http.StatusCreated))
	back := w.everywhere(refund("refund-1", first, 0), http.StatusCreated)
	w.quiet()
	require.Zero(w.t, w.balance(ledger.Merchant(w.payee))+700)

	refs := w.stated(psp.KindRefund, objectID(w.t, back))
	require.Len(w.t, refs, 1)
	require.NoError(w.t, w.judge.Fail(refs[0]))
	w.quiet()
	require.EqualValues(w.t, -20700, w.balance(ledger.Merchant(w.payee)), "the merchant is owed it again")
	w.replays(refund("refund-1", first, 0), back)
	again := w.everywhere(refund("refund-2", first, 0), http.StatusCreated) // as the merchant asks for
	require.NotEqual(w.t, objectID(w.t, back), objectID(w.t, again))

	// A ghost, and its refund fails.
	w.unasked(w.judge, second, 700)
	w.quiet()
	var ghosts []string
	for _, ref := range w.stated(psp.KindRefund, "") {
		if ref != refs[0] && !strings.Contains(string(again.Body), ref) {
			ghosts = append(ghosts, ref)
		}
	}
	require.Len(w.t, ghosts, 1)
	require.Zero(w.t, w.balance(ledger.Suspense(w.payee)))
	require.NoError(w.t, w.judge.Fail(ghosts[0]))
	w.quiet()
	require.Len(w.t, w.stated(psp.KindRefund, ""), 4, "the ghost was refunded once more")
	require.Zero(w.t, w.balance(ledger.Suspense(w.payee)))

	// A charge.
	third := objectID(w.t, w.everywhere(charge("order-3", 5000), http.StatusCreated))
	w.quiet()
	require.NoError(w.t, w.judge.Fail(w.stated(psp.KindCharge, third)[0]))
	w.quiet()
	require.EqualValues(w.t, -700, w.balance(ledger.Merchant(w.payee)))
	require.Zero(w.t, w.pages("page: "))
	// One line for each, though two regions got the notice.
	require.Equal(w.t, 2, strings.Count(w.log.String(), "type=refund.failed"), w.log)
	require.Equal(w.t, 1, strings.Count(w.log.String(), "type=charge.failed"), w.log)
	w.agrees()
}

// otherNames is a provider with other ids in its notices than in its API.
type otherNames struct{ psp.Notifier }

func (o otherNames) Read(body []byte) (psp.Notice, error) {
	n, err := o.Notifier.Read(body)
	if n.ProviderRef != "" {
		n.ProviderRef = "tx_" + n.ProviderRef
	}
	return n, err
}

// A hundred good charges look like two each. They end in one page and no refund.
func aliases(w *story) {
	w.begin(setting{caps: capable, notified: []string{us}, read: func(n psp.Notifier) psp.Notifier { return otherNames{n} }, notices: simulator.Notices{Hold: true}})
	const good = 100
	var replies []<-chan *answer.Answer
	for i := range good {
		replies = append(replies, w.later(regions[i%len(regions)], charge(fmt.Sprint("order-", i), 1000+i)))
	}
	for _, c := range replies {
		r := receive(w.t, "the answer to a charge", c)
		require.NoError(w.t, r.Err)
		require.Equal(w.t, http.StatusCreated, r.Status, "%s", r.Body)
	}
	_, err := w.judge.ReleaseNotices(simulator.ReleaseShuffled)
	require.NoError(w.t, err)
	q := w.store().Queue(outbox.Notices)
	until(w.t, "every notice waits for a person", func() bool {
		d, err := q.Depth(w.ctx, us)
		require.NoError(w.t, err)
		if d.Parked < good {
			_ = wait(w.ctx, pause)
		}
		return d.Parked == good
	})
	rows, err := q.Parked(w.ctx, us, "", 1)
	require.NoError(w.t, err)
	require.Contains(w.t, rows[0].LastError, "not given back: the provider has no movement tx_")
	require.Zero(w.t, w.judge.Summary().Refunds)
	require.Equal(w.t, 1, w.pages("page: "), w.log)
	require.Zero(w.t, w.balance(ledger.Suspense(w.payee)))
	w.agrees()
}

// More ghosts than may be refunded in an hour: as many are, one page, and the others go
// on when a person has released them.
func tooMany(w *story) {
	limits := node.DefaultCompensations()
	limits.PerHour = 3
	w.begin(setting{caps: capable, notified: []string{us, eu}, compensations: limits})
	const ghosts = 5
	for i := range ghosts {
		object := objectID(w.t, w.everywhere(charge(fmt.Sprint("order-", i), 1000), http.StatusCreated))
		w.unasked(w.judge, object, 1000)
	}
	owed := func() int64 { return -w.balance(ledger.Suspense(w.payee)) }
	until(w.t, "the brake is set and a line pages", func() bool { return w.pages("page: ") == 1 })
	until(w.t, "all ghosts are booked", func() bool {
		_ = wait(w.ctx, pause)
		// One that was let through may have been caught on its way.
		return owed()+1000*w.judge.Summary().Refunds == 1000*ghosts
	})
	require.LessOrEqual(w.t, w.judge.Summary().Refunds, int64(limits.PerHour))
	changed, err := notice.Release(w.ctx, w.store(), judged, nil)
	require.NoError(w.t, err)
	require.True(w.t, changed)
	// They would come due within a minute; a person makes them due now.
	w.received.mu.Lock()
	for id := range w.received.ids {
		for _, r := range []string{us, eu} {
			q, id := w.store().Queue(outbox.Notices), notice.ID(judged, id)
			if m, waits, err := q.Message(w.ctx, r, id); waits {
				require.NoError(w.t, err)
				if q.Park(w.ctx, r, m.Hold(), "to be due now") == nil {
					_, err = q.Unpark(w.ctx, r, id)
					require.NoError(w.t, err)
				}
			}
		}
	}
	w.received.mu.Unlock()
	until(w.t, "the others are refunded", func() bool {
		_ = wait(w.ctx, pause)
		return w.judge.Summary().Refunds == ghosts
	})
	w.quiet()
	require.Zero(w.t, owed())
	require.Equal(w.t, 1, w.pages("page: "))
	w.agrees()
}
