package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/recon"
)

// The stories are incidents of payment systems, each from the first request to the books. The
// claims, the ledger, the provider and its statement must agree in the end, and are shown.
var stories = []struct {
	title string
	play  func(*story)
}{
	{"the double charge after a time-out", doubleCharge},
	{"two requests in one millisecond", sameMillisecond},
	{"the changed amount under one key", changedAmount},
	{"the cached decline", cachedDecline},
	{"the ghost payment", ghostPayment},
	{"the ghost of a charge that was given up", abandonedGhost},
	{"the ghost of a declined charge that expired", declinedGhost},
	{"the provider is down for an hour", providerDown},
	{"no dedupe, but a look-up", noDedupe},
	{"neither dedupe nor look-up, settled by a notice", settledByNotice},
	{"neither dedupe nor look-up, found by reconciliation", foundByReconciliation},
	{"the merchant who gives up waiting", givenUpWaiting},
	{"a payment given up before it moved", givenUpBeforeItMoved},
	{"a charge of an older provider", olderProvider},
	{"a provider renamed", renamedProvider},
	{"two providers, one of them down", oneOfTwoDown},
	{"refunds", refunds},
	{"refunds and a charge that fail after they succeeded", failures},
	{"webhooks that name movements otherwise", aliases},
	{"too many ghosts", tooMany},
	{"a currency of three decimals", threeDecimals},
	{"a payer who authenticates after four minutes", payerActs},
	{"a payer who never authenticates", payerNeverActs},
	{"a bank debit that takes two days", bankDebit},
	{"a hold that is captured in part", heldInPart},
	{"a hold that is canceled", holdCanceled},
	{"a hold that lapses, and one that is past its time", holdLapses},
	{"holds at a provider that reports later", heldAtAdyen},
	{"a hold that is never captured", neverCaptured},
	{"a dispute that is lost for the second time", lostTwice},
	{"a dispute won and one lost, and a refund by hand", disputes},
	{"a charge refunded thrice and disputed, read in three regions", readInThree},
	{"what is read once the claim is deleted", readFromBooks},
	{"a statement in Stripe's format", stripesStatement},
	{"a month of test mode beside live traffic", monthOfTestMode},
}

// TestStories plays every story on the embedded store and on a database, or on the one that
// HOMEWARD_TEST_STORE names; with -short a fifth of them on each.
func TestStories(t *testing.T) {
	t.Parallel()
	stores := []string{"embedded", "sql"}
	if os.Getenv(storeEnv) != "" {
		stores = []string{testStore()}
	}
	// Shown together, for the stories run side by side.
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
	for k, on := range stores {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			if on == "sql" {
				dbtest.Shared(t) // skips all of them at once where there is no database
			}
			for i, s := range stories {
				if testing.Short() && i%5 != 2*k {
					continue
				}
				t.Run(strings.ReplaceAll(s.title, " ", "-"), func(t *testing.T) {
					t.Parallel()
					s.play(&story{t: t, title: s.title, on: on, show: func(books string) {
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

// story is a story under way.
type story struct {
	*world
	t        *testing.T
	title    string
	on       string // the store
	show     func(books string)
	received *recorder
	// stripe, adyen: the provider speaks that one's API.
	stripe  bool
	adyen   bool
	virtual *virtual // nil: time is the world's
	notes   []string // shown with the books
}

// setting is where a story plays.
type setting struct {
	sim  simulator.Config
	caps psp.Capabilities
	// policy changes that of the other tests.
	policy func(*claim.Policy)
	// notified are the regions that the provider sends its notices to; notices says how.
	notified []string
	notices  simulator.Notices
	// client reaches the provider; nil: as always.
	client *http.Client
	// read changes how notices are read; nil: as they are.
	read func(psp.Notifier) psp.Notifier
	// stripe, adyen: the provider speaks that one's API.
	stripe, adyen bool
	// virtual: time passes when the story lets it.
	virtual bool
	// others are providers beside the first, by name; failover: the first one's payments go
	// to the one of that name where it certainly moved no money.
	others   map[string]*judge
	failover string
	// compensations are the limits of automatic refunds; zero: the defaults.
	compensations node.CompensationSettings
}

// capable is a provider that can do everything.
var capable = psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true}

// recorder remembers the ids of a provider's notices.
type recorder struct {
	psp.Notifier
	mu  sync.Mutex
	ids map[string]bool
}

func (h *recorder) Verify(header http.Header, body []byte, now time.Time) (string, error) {
	id, err := h.Notifier.Verify(header, body, now)
	if err == nil {
		h.mu.Lock()
		h.ids[id] = true
		h.mu.Unlock()
	}
	return id, err
}

// begin starts the provider and three regions without rows.
func (w *story) begin(s setting) {
	w.t.Helper()
	rows := newBackendOn(w.t, w.on)
	if s.virtual {
		rows, w.virtual = onVirtualTime(w.t, rows)
		s.sim.Now = w.virtual.providerNow
	}
	j := newJudgeOf(w.t, s.sim)
	if s.virtual {
		w.virtual.judge = j
	}
	w.beginOn(rows, w.t.TempDir(), j, judged, s)
}

func (w *story) beginOn(rows backend, dir string, j *judge, name string, s setting) {
	w.t.Helper()
	w.stripe, w.adyen = s.stripe, s.adyen
	p := w.provider(j, name, s)
	w.received = &recorder{Notifier: p, ids: map[string]bool{}}
	if s.read != nil {
		w.received.Notifier = s.read(p)
	}
	w.world = startWorldOn(w.t, rows, j, func(c *node.ClusterConfig) {
		c.Dir, c.Providers, c.Notifiers, c.Events.Log = dir, psp.Providers{p}, map[string]psp.Notifier{name: w.received}, true
		w.addOthers(c, s)
		withTestSide(c)
		// No process dies in a story, so leases must not run out on a loaded machine.
		c.Policy.Lease, c.Policy.RenewEvery, c.Policy.LeaseMargin, c.Policy.LeaseCeiling = 10*time.Second, 3*time.Second, time.Second, time.Minute
		c.Outbox.Lease = 10 * time.Second
		c.Compensations = s.compensations
		if w.virtual != nil {
			c.Clock = w.virtual.storeNow
			c.Outbox.Poll = 5 * time.Millisecond // a story of days has many looks
		}
		if s.policy != nil {
			s.policy(&c.Policy)
		}
	})
	for _, r := range s.notified {
		target := simulator.NoticeTarget{URL: w.base(r) + "/v1/webhooks/" + name, Secret: noticeSecret, Stripe: s.stripe, Adyen: s.adyen}
		if s.adyen {
			target.Secret = hmacSecret
		}
		s.notices.Targets = append(s.notices.Targets, target)
	}
	require.NoError(w.t, j.SetNotices(s.notices))
}

// store is the rows as us sees them.
func (w *story) store() deployment.Store {
	w.t.Helper()
	store, err := w.cluster.DB.Region(us)
	require.NoError(w.t, err)
	return store
}

func (w *story) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// faults makes the provider misbehave from now on.
func (w *story) faults(f simulator.Faults) {
	w.t.Helper()
	require.NoError(w.t, w.judge.SetFaults(f))
}

// isUndecided reports whether a request's outcome is undecided.
func isUndecided(r *answer.Answer) bool {
	return r.Err == nil && r.Problem.Retry == "same_key" &&
		(r.Problem.Error == "outcome_unknown" || r.Problem.Error == "idempotency_key_in_use")
}

// unknown sends q to a region, which answers that the outcome is undecided.
func (w *story) unknown(region string, q request) {
	w.t.Helper()
	r := w.send(w.ctx, region, q)
	require.True(w.t, isUndecided(r), "%v", r)
}

// answered sends q to a region, again where a loaded machine takes an attempt its
// lease away, and expects this status.
func (w *story) answered(region string, q request, status int) *answer.Answer {
	w.t.Helper()
	r := w.send(w.ctx, region, q)
	for isUndecided(r) && wait(w.ctx, pauseAfter(r)) == nil {
		r = w.send(w.ctx, region, q)
	}
	require.NoError(w.t, r.Err)
	require.Equal(w.t, status, r.Status, "%s", r.Body)
	return r
}

// retrying has a merchant send q to all regions, to each again and again until its
// answer is final. The function that it returns waits for the three answers, which
// must be the same one, of this status.
func (w *story) retrying(q request) (final func(status int) *answer.Answer) {
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
func (w *story) everywhere(q request, status int) *answer.Answer {
	w.t.Helper()
	first := w.retrying(q)(status)
	w.replays(q, first)
	return first
}

// replays asserts that every region repeats an answer.
func (w *story) replays(q request, first *answer.Answer) {
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

// quiet waits until the provider has sent all notices and every queue is empty. A parked row would
// wait for a person, and fails the story.
func (w *story) quiet() {
	w.t.Helper()
	until(w.t, "everything has come to its end", func() bool {
		before := w.releaseNotices()
		idle := before >= 0 && w.queuesEmpty() && w.releaseNotices() == before
		if !idle {
			_ = wait(w.ctx, pause)
		}
		return idle
	})
}

// releaseNotices releases what the provider holds back, and returns how many notices have been
// taken, or -1 while there are others under way.
func (w *story) releaseNotices() int64 {
	_, err := w.judge.ReleaseNotices(simulator.ReleaseInOrder)
	require.NoError(w.t, err)
	if s := w.judge.NoticeStats(); s.Pending == 0 {
		return s.Sent
	}
	return -1
}

func (w *story) queuesEmpty() bool {
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
func (w *story) notices() map[notice.Status]int {
	w.t.Helper()
	all, longest := map[notice.Status]int{}, time.Duration(0)
	w.received.mu.Lock()
	defer w.received.mu.Unlock()
	for id := range w.received.ids {
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
func (w *story) ghost(object, ref string, amount int64) {
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

// object is the id of a key's movement.
func (w *story) object(q request) string {
	w.t.Helper()
	s, err := w.inspect(w.ctx, us, q.tenant, q.key)
	require.NoError(w.t, err)
	require.NotEmpty(w.t, s.Object)
	return s.Object
}

// references are the provider's of the charges for an object.
func (w *story) references(object string) (refs []string) {
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

// unasked has the provider make a charge without a request.
func (w *story) unasked(j *judge, reference string, amount int) {
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
func doubleCharge(w *story) {
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
func sameMillisecond(w *story) {
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
func changedAmount(w *story) {
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
func cachedDecline(w *story) {
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
	require.Equal(w.t, calls, w.judge.Stats().Calls, "the provider got another call")
	w.close(ending{claims: "charge COMPLETED 2, charge FAILED_TERMINAL 1", charges: 2})
}

// patient never gives up for the number of attempts: its times are those of a test,
// and so a story has many.
func patient(p *claim.Policy) { p.MaxUnknowns = 1 << 20 }

// lost makes the provider lose its replies, and make the movements only if charging is set.
var lost = simulator.Faults{LateEffect: 1, LateBy: simulator.MaxLate}

// incapable is a provider at which an unanswered call stays unknown.
var incapable = setting{
	sim:  simulator.Config{IgnoreKeys: true, NoLookup: true},
	caps: psp.Capabilities{Timeout: 5 * time.Second, SettleWindow: 100 * time.Millisecond},
}

// refusedEverywhere sends q to all regions, each of which must refuse it alike. A refusal
// that lets its key go is no replay.
func (w *story) refusedEverywhere(q request, status int) (last *answer.Answer) {
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
