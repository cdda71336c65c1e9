package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/verify"
)

const (
	// noticeSecret signs the provider's notices, eventSecret our events.
	noticeSecret = "whsec_bm90aWNlcyBvZiB0aGUgc2ltdWxhdG9y"
	eventSecret  = "whsec_ZXZlbnRzIGZvciB0aGUgbWVyY2hhbnRz"
)

// noticing is newProvider with notices, and without patience: a call that is not
// answered at once counts as lost soon.
func noticing(url string) (*httpjson.Provider, error) {
	return httpjson.New(httpjson.Config{
		Name: "simulator", BaseURL: url, Notices: httpjson.Notices{Secret: noticeSecret},
		Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true, SettleWindow: 50 * time.Millisecond},
	})
}

func compensates(operation string) bool { return operation == string(payment.Compensation) }

// The pointed store's steps of notices, expiries, events and books.

func (s *pointedStore) Keep(ctx context.Context, region string, notices []notice.Notice) (int, error) {
	s.at(noticeArrived)
	fresh, err := s.Store.Keep(ctx, region, notices)
	if err == nil {
		s.at(noticeKept)
	}
	return fresh, err
}

func (s *pointedStore) Close(ctx context.Context, region, id string, fence uint64, status notice.Status, detail string) error {
	s.at(noticeDone)
	err := s.Store.Close(ctx, region, id, fence, status, detail)
	if err == nil {
		s.at(noticeClosed)
	}
	return err
}

func (s *pointedStore) CloseAll(ctx context.Context, region string, rows []outbox.Hold, status notice.Status, detail string) (int, error) {
	s.at(noticeDone)
	closed, err := s.Store.CloseAll(ctx, region, rows, status, detail)
	if err == nil {
		s.at(noticeClosed)
	}
	return closed, err
}

func (s *pointedStore) Post(ctx context.Context, t ledger.Transaction) (bool, error) {
	s.at(ghostFound)
	posted, err := s.Store.Post(ctx, t)
	if err == nil {
		s.at(ghostBooked)
	}
	return posted, err
}

func (s *pointedStore) Queue(q outbox.Queue) outbox.Store {
	p := &pointedQueue{Store: s.Store.Queue(q), at: s.at}
	switch q {
	case outbox.ProviderCalls:
		return &pointedCalls{p.Store, s}
	case outbox.Notices:
		p.taken = noticeTaken
	case outbox.Expiries:
		p.taken, p.finish, p.finished = expiryTaken, expiryFinish, expiryFinished
	case outbox.Events:
		p.taken, p.finish, p.finished = eventTaken, eventDelivered, eventFinished
	}
	return p
}

// pointedCalls is the queue of provider calls.
type pointedCalls struct {
	outbox.Store
	s *pointedStore
}

func (q *pointedCalls) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	if q.s.noWorker {
		return nil, nil
	}
	rows, err := q.Store.Take(ctx, region, limit, lease)
	if err == nil && len(rows) > 0 {
		q.s.at(taken)
	}
	return rows, err
}

// pointedQueue calls at when a row is taken and when it is finished.
type pointedQueue struct {
	outbox.Store
	at                      func(point)
	taken, finish, finished point
}

// Take has the lease of the other workers of a test: the events' own is a minute.
func (q *pointedQueue) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	rows, err := q.Store.Take(ctx, region, limit, min(lease, quickOutbox.Lease))
	if err == nil && len(rows) > 0 {
		q.at(q.taken)
	}
	return rows, err
}

func (q *pointedQueue) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	q.at(q.finish)
	err := q.Store.FinishAll(ctx, region, rows)
	if err == nil {
		q.at(q.finished)
	}
	return err
}

// pointedProvider calls at when a refund is sent.
type pointedProvider struct {
	psp.Provider
	at func(point)
}

func (p *pointedProvider) Capture(ctx context.Context, c psp.Call) psp.Result {
	r := p.Provider.Capture(ctx, c)
	p.at(orderCalled)
	return r
}

func (p *pointedProvider) Cancel(ctx context.Context, c psp.Call) psp.Result {
	r := p.Provider.Cancel(ctx, c)
	p.at(orderCalled)
	return r
}

func (p *pointedProvider) Refund(ctx context.Context, c psp.Call) psp.Result {
	p.at(refundCall)
	r := p.Provider.Refund(ctx, c)
	p.at(refundCalled)
	return r
}

// noticed is a crash run with a provider that sends notices. It reaches the current cluster under
// one address, as through a load balancer.
type noticed struct {
	*crashRun
	front string // that address
	mu    sync.Mutex
	ids   []string // of the events that were passed on, each once, in order
	world *world   // that came after the last death
}

func newNoticed(t *testing.T) *noticed {
	n := &noticed{crashRun: newCrashRun(t, nil)}
	front := httptest.NewServer(http.HandlerFunc(n.pass))
	t.Cleanup(front.Close)
	n.front = front.URL
	n.notifyAt(front.URL, true)
	return n
}

// notifyAt has the provider report what moves from now on, at once or once released.
func (n *noticed) notifyAt(url string, hold bool) {
	n.notifyAs(url, simulator.NoticeTarget{Secret: noticeSecret}, hold)
}

// notifyAs is notifyAt in the target's format, with its secret.
func (n *noticed) notifyAs(url string, target simulator.NoticeTarget, hold bool) {
	target.URL = url
	require.NoError(n.t, n.judge.SetNotices(simulator.Notices{
		Targets: []simulator.NoticeTarget{target}, RetryAfter: 20 * time.Millisecond, Hold: hold,
	}))
}

func (n *noticed) pass(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	n.mu.Lock()
	if id := r.Header.Get("webhook-id"); !slices.Contains(n.ids, id) {
		n.ids = append(n.ids, id)
	}
	n.mu.Unlock()
	on, err := http.NewRequestWithContext(r.Context(), http.MethodPost, n.base(us)+"/v1/webhooks/simulator", bytes.NewReader(body))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	on.Header, on.GetBody = r.Header.Clone(), nil
	res, err := n.http.Do(on)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	w.WriteHeader(res.StatusCode)
}

// passed are the ids of the provider's events so far.
func (n *noticed) passed() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ids)
}

// revive starts the cluster after the last death, in this process.
func (n *noticed) revive(sink string, wrap func(deployment.Store) deployment.Store) {
	n.t.Helper()
	provider, err := noticing(n.judge.url)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = provider.Close() })
	n.world = startWorldOn(n.t, n.rows, n.judge, func(c *node.ClusterConfig) {
		c.Dir, c.Providers, c.Notifiers = n.dir, psp.Providers{provider}, map[string]psp.Notifier{provider.Name(): provider}
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store {
			s = &pointedStore{Store: s, at: func(point) {}}
			if wrap != nil {
				s = wrap(s)
			}
			return s
		}
		if sink != "" {
			c.Events = webhookEvents()
		}
	})
	require.NoError(n.t, putEndpoints(n.ctx, n.world.cluster, n.rows, sink))
	n.move(clusterBases(n.world.cluster))
}

// store is a region's view of the rows of the revived cluster.
func (n *noticed) store(region string) deployment.Store {
	s, err := n.world.cluster.DB.Region(region)
	require.NoError(n.t, err)
	return s
}

// expireLate makes a charge that expires with its calls still on their way, and
// returns its id.
func (n *noticed) expireLate(entry, key string, amount int) {
	n.t.Helper()
	require.NoError(n.t, n.judge.SetFaults(simulator.Faults{LateEffect: 1, LateBy: time.Hour}))
	expires := time.Now().Add(1500 * time.Millisecond).Format(time.RFC3339Nano)
	q := request{acme, "/v1/charges", key, fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":"pm_card_visa","expires_at":%q}`, amount, expires), ""}
	r := n.send(n.ctx, entry, q)
	require.NoError(n.t, r.Err)
	require.Equal(n.t, http.StatusServiceUnavailable, r.Status, "%s", r.Body)
	r = n.settle(n.ctx, entry, q, nil)
	require.Equal(n.t, "expired", r.Problem.Code, "%s", r.Body)
	require.NoError(n.t, n.judge.SetFaults(simulator.Faults{}))
	require.Empty(n.t, n.judge.Effects())
	require.Positive(n.t, n.judge.ReleaseLate(), "calls were on their way")
}

// moveAgain makes the provider move the money of a charge a second time.
func (n *noticed) moveAgain(reference string, amount int) {
	n.t.Helper()
	body := fmt.Sprintf(`{"reference":%q,"amount":%d,"currency":"usd","source":"pm_card_visa"}`, reference, amount)
	req, err := http.NewRequestWithContext(n.ctx, http.MethodPost, n.judge.url+"/v1/charges", strings.NewReader(body))
	require.NoError(n.t, err)
	req.Header.Set("Idempotency-Key", "nobodys-key")
	req.Header.Set("Content-Type", "application/json")
	r := n.do(req)
	require.NoError(n.t, r.Err)
	require.Equal(n.t, http.StatusOK, r.Status, "%s", r.Body)
}

// agree proves the books of all regions, and checks that no payer waits for money and that the
// provider holds the amounts of the books for us.
func (n *noticed) agree() {
	n.t.Helper()
	s := n.store(us)
	report, err := verify.Books(n.ctx, s, regions)
	require.NoError(n.t, err)
	require.True(n.t, report.OK(), "%+v", report)
	var sum, held int64
	for _, region := range regions {
		all, err := s.Balances(n.ctx, region, ledger.AccountKey{}, 1000)
		require.NoError(n.t, err)
		for _, b := range all {
			sum += b.Debits - b.Credits
			if b.Account == ledger.Provider("simulator") {
				held += b.Debits - b.Credits
			}
			if strings.HasPrefix(string(b.Account), "suspense:") {
				require.Equal(n.t, b.Debits, b.Credits, "%s of %s", b.Account, region)
			}
		}
	}
	require.Zero(n.t, sum)
	var moved int64
	for _, e := range n.judge.Effects() {
		if e.Kind == psp.KindCharge {
			moved += e.Amount
		} else {
			moved -= e.Amount
		}
	}
	require.Equal(n.t, moved, held, "what the provider moved, and what is booked")
}

// empty waits until no row of a queue is left. A process that died may have held rows,
// those of events for a minute.
func (n *noticed) empty(q outbox.Queue) {
	n.t.Helper()
	untilWithin(n.t, time.Minute+patience, "no row is left of "+string(q), func() bool {
		for _, region := range regions {
			d, err := n.store(region).Queue(q).Depth(n.ctx, region)
			require.NoError(n.t, err)
			if d.Pending+d.Parked > 0 {
				return false
			}
		}
		return true
	})
}

// TestCompensationCrashPoints kills the process before and after each step that gives money back,
// which arrived for a charge that had expired and for one that had been paid. The next process
// refunds each once, and the books agree.
func TestCompensationCrashPoints(t *testing.T) {
	for i, tc := range []struct {
		first  point
		second point // of another death, "" for none
	}{
		{first: noticeArrived},
		{first: noticeKept},
		{first: noticeKept, second: noticeTaken},
		{first: noticeTaken},
		{first: ghostFound},
		{first: ghostBooked},
		{first: ghostBooked, second: ghostBooked},
		{first: refundWanted},
		{first: refundIntent},
		{first: refundIntent, second: refundResumed},
		{first: refundCall},
		{first: refundCalled},
		{first: refundCalled, second: refundCalled},
		{first: refundLearned},
		{first: refundLearned, second: refundBooked},
		{first: refundBooked},
		{first: refundBooked, second: noticeDone},
		{first: noticeDone},
		{first: noticeClosed},
	} {
		if testing.Short() && i%4 != 1 {
			continue
		}
		name := string(tc.first)
		if tc.second != "" {
			name += ", then " + string(tc.second)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const late, paid = 700, 42
			n := newNoticed(t)
			// Before the first notice nothing is compensated: the charges reach none of these
			// points but a takeover.
			dying := n.start(childConfig{Die: tc.first, Arrivals: 1, Notices: true})
			n.expireLate(us, stamped(t, eu), late)
			q := charge("order-1", paid)
			first := n.settle(n.ctx, us, q, nil)
			require.Equal(t, http.StatusCreated, first.Status, "%v", first)
			until(t, "both movements are held back", func() bool { return n.judge.NoticeStats().Held == 2 })
			// The first payment is booked and not reported; the late one is reported.
			n.moveAgain(objectID(t, first), paid)
			until(t, "three movements are held back", func() bool { return n.judge.NoticeStats().Held == 3 })
			_, err := n.judge.ReleaseNotices(simulator.ReleaseInOrder)
			require.NoError(t, err)
			dying.died()
			if tc.second != "" {
				n.start(childConfig{Die: tc.second, Arrivals: 1, Notices: true}).died()
			}
			n.revive("", nil)
			n.compensated(objectID(t, first), late, paid)
			n.agree()
			require.Equal(t, first.Remembered(), n.settle(n.ctx, asia, q, nil).Remembered(), "what was paid stays paid")
		})
	}
}

// compensated waits until all notices are closed, and asserts that of the three
// movements two were given back, each once.
func (n *noticed) compensated(paidID string, amounts ...int64) {
	n.t.Helper()
	statuses := func() map[notice.Status]int {
		all := map[notice.Status]int{}
		for _, id := range n.passed() {
			got, found, err := n.store(us).Notice(n.ctx, us, notice.ID("simulator", id))
			require.NoError(n.t, err)
			if found {
				all[got.Status]++
			}
		}
		return all
	}
	until(n.t, "two movements are compensated", func() bool { return statuses()[notice.ProcessedCompensated] == 2 })
	n.empty(outbox.ProviderCalls)
	// The refunds are reported too, and matched.
	until(n.t, "the provider has notices of both refunds", func() bool { return n.judge.NoticeStats().Held == 2 })
	_, err := n.judge.ReleaseNotices(simulator.ReleaseShuffled)
	require.NoError(n.t, err)
	want := map[notice.Status]int{notice.ProcessedCompensated: 2, notice.ProcessedOK: 3}
	until(n.t, "every notice is closed", func() bool { return maps.Equal(want, statuses()) })
	n.empty(outbox.Notices)
	stats := n.judge.Stats()
	require.EqualValues(n.t, 5, stats.Effects, "three charges and two refunds")
	require.EqualValues(n.t, 2, stats.Refunds)
	require.Zero(n.t, stats.KeyReuses)
	require.Equal(n.t, 2, n.judge.moved(paidID), "as the provider was made to")
	var back []int64
	for _, e := range n.judge.Effects() {
		if e.Kind == psp.KindRefund {
			back = append(back, e.Amount)
		}
	}
	require.ElementsMatch(n.t, amounts, back)
}
