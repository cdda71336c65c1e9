package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/recon"
)

// The stories are incidents of payment systems, each told from the first request to
// the books: what the claims, the ledger, the provider and its statement say in the
// end is shown and has to be the same.
var stories = []struct {
	title string
	tell  func(*tale)
}{
	{"the double charge after a time-out", doubleCharge},
	{"two requests in one millisecond", sameMillisecond},
	{"the changed amount under one key", changedAmount},
	{"the cached decline", cachedDecline},
	{"the ghost payment", ghostPayment},
	{"the ghost of a charge that was given up", givenUpGhost},
	{"the ghost of a declined charge that expired", declinedGhost},
	{"the provider is down for an hour", providerDown},
	{"no dedupe, but a look-up", noDedupe},
	{"neither dedupe nor look-up, settled by a notice", settledByNotice},
	{"neither dedupe nor look-up, found by reconciliation", foundByReconciliation},
	{"a charge of an older provider", olderProvider},
	{"refunds", refunds},
	{"refunds and a charge that fail after they succeeded", failures},
	{"webhooks that name movements otherwise", aliases},
	{"too many ghosts", tooMany},
}

// TestStories tells every story on the embedded store and on a database, or on the
// one that HOMEWARD_TEST_STORE names.
func TestStories(t *testing.T) {
	t.Parallel()
	stores := []string{"embedded", "sql"}
	if os.Getenv(storeEnv) != "" {
		stores = []string{testStore()}
	}
	// Shown together, for the stories are told side by side.
	var mu sync.Mutex
	shown := map[string]string{}
	t.Cleanup(func() {
		for _, on := range stores {
			for _, s := range stories {
				if books := shown[on+s.title]; books != "" {
					t.Log(books)
				}
			}
		}
	})
	for _, on := range stores {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			if on == "sql" {
				dbtest.Shared(t) // skips all of them at once where there is no database
			}
			for _, s := range stories {
				t.Run(strings.ReplaceAll(s.title, " ", "-"), func(t *testing.T) {
					t.Parallel()
					s.tell(&tale{t: t, title: s.title, on: on, show: func(books string) {
						mu.Lock()
						defer mu.Unlock()
						shown[on+s.title] = books
					}})
				})
			}
		})
	}
}

// judged is the name under which the judge is booked.
const judged = "simulator"

// tale is a story under way.
type tale struct {
	*world
	t     *testing.T
	title string
	on    string // the store
	show  func(books string)
	heard *hearing
	notes []string // shown with the books
}

// setting is where a story plays.
type setting struct {
	sim  simulator.Config
	caps psp.Capabilities
	// policy changes that of the other tests.
	policy func(*claim.Policy)
	// told are the regions that the provider sends its notices to; notices says how.
	told    []string
	notices simulator.Notices
	// client reaches the provider; nil: as always.
	client *http.Client
	// read changes how notices are read; nil: as they are.
	read func(psp.Notifier) psp.Notifier
	// compensations are the limits of automatic refunds; zero: the defaults.
	compensations node.CompensationSettings
}

// capable is a provider that can do everything.
var capable = psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true}

// hearing remembers the ids of the events that a provider told of.
type hearing struct {
	psp.Notifier
	mu  sync.Mutex
	ids map[string]bool
}

func (h *hearing) Verify(header http.Header, body []byte, now time.Time) (string, error) {
	id, err := h.Notifier.Verify(header, body, now)
	if err == nil {
		h.mu.Lock()
		h.ids[id] = true
		h.mu.Unlock()
	}
	return id, err
}

// begin starts the provider and three regions, whose rows are fresh.
func (w *tale) begin(s setting) {
	w.t.Helper()
	w.beginOn(newBackendOn(w.t, w.on), w.t.TempDir(), newJudgeOf(w.t, s.sim), judged, s)
}

func (w *tale) beginOn(rows backend, dir string, j *judge, name string, s setting) {
	w.t.Helper()
	p, err := httpjson.New(httpjson.Config{
		Name: name, BaseURL: j.url, Capabilities: s.caps, Client: s.client, Notices: httpjson.Notices{Secret: noticeSecret},
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	w.heard = &hearing{Notifier: p, ids: map[string]bool{}}
	if s.read != nil {
		w.heard.Notifier = s.read(p)
	}
	w.world = startWorldOn(w.t, rows, j, func(c *node.ClusterConfig) {
		c.Dir, c.Provider, c.Notifiers, c.Events.Log = dir, p, map[string]psp.Notifier{name: w.heard}, true
		// Nobody dies in a story: leases are not to run out on a loaded machine.
		c.Policy.Lease, c.Policy.RenewEvery, c.Policy.LeaseMargin, c.Policy.LeaseCeiling = 10*time.Second, 3*time.Second, time.Second, time.Minute
		c.Outbox.Lease = 10 * time.Second
		c.Compensations = s.compensations
		if s.policy != nil {
			s.policy(&c.Policy)
		}
	})
	for _, r := range s.told {
		s.notices.Targets = append(s.notices.Targets, simulator.NoticeTarget{URL: w.base(r) + "/v1/webhooks/" + name, Secret: noticeSecret})
	}
	require.NoError(w.t, j.SetNotices(s.notices))
}

// store is the rows as us sees them.
func (w *tale) store() deployment.Store {
	w.t.Helper()
	store, err := w.cluster.DB.Region(us)
	require.NoError(w.t, err)
	return store
}

func (w *tale) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// faults makes the provider misbehave from now on.
func (w *tale) faults(f simulator.Faults) {
	w.t.Helper()
	require.NoError(w.t, w.judge.SetFaults(f))
}

// notKnown reports whether a region cannot tell yet what becomes of a request.
func notKnown(r *answer.Answer) bool {
	return r.Err == nil && r.Problem.Retry == "same_key" &&
		(r.Problem.Error == "outcome_unknown" || r.Problem.Error == "idempotency_key_in_use")
}

// unknown sends q to a region, which cannot tell what becomes of it.
func (w *tale) unknown(region string, q request) {
	w.t.Helper()
	r := w.send(w.ctx, region, q)
	require.True(w.t, notKnown(r), "%v", r)
}

// answered sends q to a region, again where a loaded machine takes an attempt its
// lease away, and expects this status.
func (w *tale) answered(region string, q request, status int) *answer.Answer {
	w.t.Helper()
	r := w.send(w.ctx, region, q)
	for notKnown(r) && wait(w.ctx, pauseAfter(r)) == nil {
		r = w.send(w.ctx, region, q)
	}
	require.NoError(w.t, r.Err)
	require.Equal(w.t, status, r.Status, "%s", r.Body)
	return r
}

// retrying has a merchant send q to all regions, to each again and again until its
// answer is final. The function that it returns waits for the three answers, which
// must be the same one, of this status.
func (w *tale) retrying(q request) (final func(status int) *answer.Answer) {
	answers := make(chan *answer.Answer, len(regions))
	for _, r := range regions {
		go func() { answers <- w.settle(w.ctx, r, q, nil) }()
	}
	return func(status int) *answer.Answer {
		w.t.Helper()
		var first *answer.Answer
		for range regions {
			r := receive(w.t, "the final answer to "+q.key, answers)
			require.NoError(w.t, r.Err)
			require.Equal(w.t, status, r.Status, "%s", r.Body)
			if first == nil {
				first = r
			}
			require.Equal(w.t, first.Remembered(), r.Remembered())
		}
		return first
	}
}

// everywhere retries q in all regions until it is answered, and then once more: all
// have to read the same bytes.
func (w *tale) everywhere(q request, status int) *answer.Answer {
	w.t.Helper()
	first := w.retrying(q)(status)
	w.replays(q, first)
	return first
}

// replays asserts that every region repeats an answer.
func (w *tale) replays(q request, first *answer.Answer) {
	w.t.Helper()
	for _, r := range regions {
		again := w.at(r, q, first.Status)
		require.Equal(w.t, first.Remembered(), again.Remembered())
		require.Equal(w.t, "true", again.Header.Get("Idempotent-Replayed"))
	}
}

// shortly is a time by which a request has long been with the provider, and for
// which a test can wait. As a body has it.
func shortly() string { return time.Now().Add(6 * time.Second).UTC().Format(time.RFC3339Nano) }

// payable is a charge that has to be paid shortly.
func payable(key string, amount int, method string) request {
	return request{acme, "/v1/charges", key,
		fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":%q,"expires_at":%q}`, amount, method, shortly()), ""}
}

// pause is between two looks at all queues.
const pause = 100 * time.Millisecond

// quiet waits until the provider has told of everything and nothing is left to do in
// any queue. What is parked would wait for a person, and fails the story.
func (w *tale) quiet() {
	w.t.Helper()
	until(w.t, "everything has come to its end", func() bool {
		before := w.told()
		idle := before >= 0 && w.queuesEmpty() && w.told() == before
		if !idle {
			_ = wait(w.ctx, pause)
		}
		return idle
	})
}

// told releases what the provider holds back, and returns how many notices have been
// taken, or -1 while there are others under way.
func (w *tale) told() int64 {
	_, err := w.judge.ReleaseNotices(simulator.ReleaseInOrder)
	require.NoError(w.t, err)
	if s := w.judge.NoticeStats(); s.Pending == 0 {
		return s.Sent
	}
	return -1
}

func (w *tale) queuesEmpty() bool {
	w.t.Helper()
	for _, name := range outbox.AllQueues() {
		q := w.store().Queue(name)
		for _, r := range regions {
			d, err := q.Depth(w.ctx, r)
			require.NoError(w.t, err)
			if d.Parked > 0 {
				rows, err := q.Parked(w.ctx, r, "", 1)
				require.NoError(w.t, err)
				require.FailNow(w.t, "a row was parked", "%s in %s: %s", name, r, rows[0].LastError)
			}
			if d.Pending > 0 {
				return false
			}
		}
	}
	return true
}

// notices counts what became of the notices, in all regions. The longest time from a
// notice to the compensation that it led to is noted.
func (w *tale) notices() map[notice.Status]int {
	w.t.Helper()
	all, longest := map[notice.Status]int{}, time.Duration(0)
	w.heard.mu.Lock()
	defer w.heard.mu.Unlock()
	for id := range w.heard.ids {
		for _, r := range regions {
			n, found, err := w.store().Notice(w.ctx, r, notice.ID(judged, id))
			require.NoError(w.t, err)
			if !found {
				continue
			}
			all[n.Status]++
			if n.Status == notice.ProcessedCompensated {
				longest = max(longest, n.ProcessedAt.Sub(n.ReceivedAt))
			}
		}
	}
	if all[notice.ProcessedCompensated] > 0 {
		w.note("notices: %d compensated, %d ok; time to compensate: at most %v",
			all[notice.ProcessedCompensated], all[notice.ProcessedOK], longest.Round(time.Millisecond))
	}
	return all
}

// ghost asserts that a movement for an object was booked as a ghost and given back.
func (w *tale) ghost(object, ref string, amount int64) {
	w.t.Helper()
	_, code, ok := claim.ReadObjectID(object)
	require.True(w.t, ok)
	home, _ := homeOf(code)
	ghost, found, err := w.store().Transaction(w.ctx, home, ledger.GhostID(judged, ref))
	require.NoError(w.t, err)
	require.True(w.t, found, "the ghost is booked")
	require.Equal(w.t, object, ghost.Object)
	require.Equal(w.t, amount, ghost.Amount)
	back, err := w.store().Reversals(w.ctx, ghost.ID)
	require.NoError(w.t, err)
	require.Len(w.t, back, 1)
	require.Equal(w.t, ledger.GhostRefundID(judged, ref), back[0].ID)
	require.Equal(w.t, ledger.GhostRefund, back[0].Kind)
	require.Equal(w.t, amount, back[0].Amount)
	require.Equal(w.t, [2]ledger.Account{ghost.Credit, ghost.Debit}, [2]ledger.Account{back[0].Debit, back[0].Credit})
}

// object is the id under which a key's movement goes.
func (w *tale) object(q request) string {
	w.t.Helper()
	s, err := w.inspect(w.ctx, us, q.tenant, q.key)
	require.NoError(w.t, err)
	require.NotEmpty(w.t, s.Object)
	return s.Object
}

// references are the provider's of the charges for an object.
func (w *tale) references(object string) (refs []string) {
	w.t.Helper()
	var statement bytes.Buffer
	require.NoError(w.t, w.judge.WriteStatement(&statement, simulator.Statement{Format: "csv"}))
	_, err := recon.Read(&statement, recon.CSV, func(l recon.Line) error {
		if l.Reference == object && l.Kind == psp.KindCharge {
			refs = append(refs, l.ID)
		}
		return nil
	})
	require.NoError(w.t, err)
	return refs
}

// unasked has the provider make a charge that nobody asked it for.
func (w *tale) unasked(j *judge, reference string, amount int) {
	w.t.Helper()
	body := fmt.Sprintf(`{"reference":%q,"amount":%d,"currency":"usd","source":"pm_card_visa"}`, reference, amount)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, j.url+"/v1/charges", strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	r := w.do(req)
	require.NoError(w.t, r.Err)
	require.Equal(w.t, http.StatusOK, r.Status, "%s", r.Body)
}

// The provider charges, and answers only after we stopped waiting. The caller retries,
// here, there and everywhere.
func doubleCharge(w *tale) {
	caps := capable
	caps.Timeout = 400 * time.Millisecond
	w.begin(setting{caps: caps})
	all := []request{charge("order-1", 20000), charge(stamped(w.t, asia), 20000), transfer(stamped(w.t, eu), 5000)}
	g := w.judge.hold(w.t)
	var answers []func(int) *answer.Answer
	for _, q := range all {
		w.unknown(us, q)
		receive(w.t, "the call", g.entered)
		answers = append(answers, w.retrying(q))
	}
	w.judge.once(w.t, 0) // it is still at it
	g.release()
	for i, q := range all {
		first := answers[i](http.StatusCreated)
		w.replays(q, first)
		require.Equal(w.t, 1, w.judge.moved(objectID(w.t, first)))
	}
	w.judge.once(w.t, len(all))
	w.close(ending{claims: "charge COMPLETED 2, transfer COMPLETED 1", charges: 2, transfers: 1})
}

// Many requests with one key at once, none of which can see the others begin.
func sameMillisecond(w *tale) {
	const rivals = 24
	w.begin(setting{caps: capable, sim: simulator.Config{Latency: 20 * time.Millisecond}})
	all := []request{
		charge("order-1", 100), charge("order-2", 200), charge(stamped(w.t, us), 300), charge(stamped(w.t, eu), 400),
		transfer("payout-1", 500), transfer(stamped(w.t, asia), 600),
	}
	for _, q := range all {
		start, answers := make(chan struct{}), make(chan *answer.Answer, rivals)
		for i := range rivals {
			go func() {
				<-start
				answers <- w.settle(w.ctx, regions[i%len(regions)], q, nil)
			}()
		}
		close(start)
		first := receive(w.t, "an answer", answers)
		require.NoError(w.t, first.Err)
		require.Equal(w.t, http.StatusCreated, first.Status, "%s", first.Body)
		for range rivals - 1 {
			require.Equal(w.t, first.Remembered(), receive(w.t, "an answer", answers).String())
		}
		w.replays(q, first)
	}
	w.judge.once(w.t, len(all))
	w.close(ending{claims: "charge COMPLETED 4, transfer COMPLETED 2", charges: 4, transfers: 2})
}

// One key, another amount: neither executed nor replayed, while the first is under way
// and after it. The same request in other words is none of that.
func changedAmount(w *tale) {
	w.begin(setting{caps: capable})
	for n, key := range []string{"order-1", stamped(w.t, eu)} {
		q, other := charge(key, 20000), charge(key, 50000)
		refused := func() {
			w.t.Helper()
			for _, r := range regions {
				got := w.at(r, other, http.StatusUnprocessableEntity)
				require.Equal(w.t, "idempotency_key_fingerprint_mismatch", got.Problem.Error)
				require.Equal(w.t, "never", got.Problem.Retry)
			}
		}
		g := w.judge.hold(w.t)
		under := w.later(us, q)
		receive(w.t, "the call", g.entered)
		refused()
		g.release()
		w.judge.SetHooks(simulator.Hooks{})
		first := receive(w.t, "the answer", under)
		require.NoError(w.t, first.Err)
		if first.Status != http.StatusCreated { // a loaded machine took its lease away
			first = w.retrying(q)(http.StatusCreated)
		}
		refused()
		for i, body := range []string{
			`{"payment_method":"pm_card_visa","currency":"usd","amount":20000}`,
			`{"client_ts":1772366400,"amount":2e4,"currency":"usd","payment_method":"pm_card_visa"}`,
			` { "amount" : 20000.0, "client_ts":"later", "trace_id":"t", "payment_method":"pm_card_visa", "currency":"usd" } `,
		} {
			same := q
			same.body = body
			got := w.at(regions[i], same, http.StatusCreated)
			require.Equal(w.t, first.Remembered(), got.Remembered())
			require.Equal(w.t, "true", got.Header.Get("Idempotent-Replayed"))
		}
		w.judge.once(w.t, n+1)
	}
	w.close(ending{claims: "charge COMPLETED 2", charges: 2})
}

// What a key may remember: not that there was too little money, but that the card was
// stolen.
func cachedDecline(w *tale) {
	w.begin(setting{caps: capable})
	for i, key := range []string{"order-1", stamped(w.t, asia)} {
		q := charge(key, 20000)
		q.body = strings.Replace(q.body, "pm_card_visa", "pm_card_insufficient_funds_once", 1)
		declined := w.answered(regions[i], q, http.StatusPaymentRequired)
		require.Equal(w.t, "insufficient_funds", declined.Problem.Code)
		require.Equal(w.t, "same_key", declined.Problem.Retry)
		w.judge.once(w.t, i)
		w.everywhere(q, http.StatusCreated) // the customer has added money
		w.judge.once(w.t, i+1)
	}
	q := charge("order-2", 20000)
	q.body = strings.Replace(q.body, "pm_card_visa", "pm_card_stolen", 1)
	stolen := w.answered(us, q, http.StatusPaymentRequired)
	require.Equal(w.t, "new_key", stolen.Problem.Retry)
	calls := w.judge.Stats().Calls
	w.replays(q, stolen)
	w.replays(q, stolen)
	require.Equal(w.t, calls, w.judge.Stats().Calls, "the provider was asked again")
	w.close(ending{claims: "charge COMPLETED 2, charge FAILED_TERMINAL 1", charges: 2})
}

// patient never gives up for the number of attempts: its times are those of a test,
// and so a story has many.
func patient(p *claim.Policy) { p.MaxUnknowns = 1 << 20 }

// lost makes the provider lose its replies, and carry the calls out only when it is
// told to.
var lost = simulator.Faults{LateEffect: 1, LateBy: simulator.MaxLate}

// A charge that has to be paid in time is sent, and nothing comes back. Its time
// passes, the merchant is told that it has expired, and sells to somebody else. Then
// the money moves, and the provider says so: late, twice, out of order, to two
// regions.
func ghostPayment(w *tale) {
	caps := capable
	caps.Timeout, caps.SettleWindow = 5*time.Second, 100*time.Millisecond
	w.begin(setting{caps: caps, policy: patient, told: []string{eu, asia}, notices: simulator.Notices{Hold: true, Duplicate: 1, RetryAfter: 100 * time.Millisecond}})
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

// The provider cannot be asked, and never answers: the charge is given up, which is
// final. Then it turns out that it was made.
func givenUpGhost(w *tale) {
	caps := psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters}
	w.begin(setting{
		caps: caps, sim: simulator.Config{NoLookup: true}, told: []string{asia}, notices: simulator.Notices{Duplicate: 1},
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

// There is too little money, and nobody tries again until the charge expires: the
// sweeper closes it. Then the provider, which tries declined cards again by itself,
// has charged it after all.
func declinedGhost(w *tale) {
	w.begin(setting{caps: capable, told: []string{eu}})
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
type line struct {
	down   atomic.Bool
	closed string // an address where nobody listens
}

func newLine(t testing.TB) *line {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return &line{closed: l.Addr().String()}
}

// client dials anew for each call, so that none is on its way when the line goes down.
func (l *line) client() *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if l.down.Load() {
				addr = l.closed
			}
			return dialer.DialContext(ctx, network, addr)
		},
	}}
}

// The provider answers 503, then not at all, until every region has opened its
// circuit; then it is back. Merchants never stop asking.
func providerDown(w *tale) {
	const each = 8
	l := newLine(w.t)
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

// A provider that knows no keys, and can be asked: one call charged and lost its
// reply, another never arrived.
func noDedupe(w *tale) {
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

// incapable is a provider with which a call that goes unanswered stays unknown.
var incapable = setting{
	sim:  simulator.Config{IgnoreKeys: true, NoLookup: true},
	caps: psp.Capabilities{Timeout: 5 * time.Second, SettleWindow: 100 * time.Millisecond},
}

// A provider that knows no keys and cannot be asked charges and loses its reply. Its
// notice says that it charged; another one, that it did so again.
func settledByNotice(w *tale) {
	s := incapable
	s.policy, s.told, s.notices = patient, []string{asia}, simulator.Notices{Hold: true}
	w.begin(s)
	q := charge("order-1", 20000)
	w.faults(simulator.Faults{DropReply: 1})
	w.unknown(us, q)
	answer := w.retrying(q)
	w.faults(simulator.Faults{})
	until(w.t, "somebody has tried again", func() bool {
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
func foundByReconciliation(w *tale) {
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

// An older provider is left for a new one. Its statement has charges of which there
// is no record: reconciliation names them, and gives nothing back that it knows
// nothing of.
func olderProvider(w *tale) {
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
	refused := w.refusedEverywhere(refund("refund-1", objectID(w.t, paid), 0), http.StatusBadRequest)
	require.Equal(w.t, "provider_not_available", refused.Problem.Code)

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

// refusedEverywhere sends q to all regions, each of which must refuse it alike. A refusal
// that lets its key go is no replay.
func (w *tale) refusedEverywhere(q request, status int) (last *answer.Answer) {
	w.t.Helper()
	for _, r := range regions {
		got := w.answered(r, q, status)
		if last != nil {
			require.Equal(w.t, last.Remembered(), got.Remembered())
		}
		last = got
	}
	return last
}

// Money goes back in parts, as a whole, never more than came, and once.
func refunds(w *tale) {
	w.begin(setting{caps: capable, told: []string{us}})
	whole := objectID(w.t, w.everywhere(charge("order-1", 10000), http.StatusCreated))
	parts := objectID(w.t, w.everywhere(charge(stamped(w.t, asia), 10000), http.StatusCreated))
	foreign := charge("order-1", 500)
	foreign.tenant = globex
	theirs := objectID(w.t, w.everywhere(foreign, http.StatusCreated))
	calls := w.judge.Stats().Calls

	// Refused without a call: nothing of ours, not theirs, more than there was.
	none, err := claim.NewObjectID("ch", codes[us], nil)
	require.NoError(w.t, err)
	for i, tc := range []struct {
		q    request
		code string
	}{{refund("no-1", none, 0), "no_such_charge"}, {refund("no-2", theirs, 0), "no_such_charge"}, {refund("no-3", parts, 10001), "amount_too_large"}} {
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
