package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/e2e/goods"
	"github.com/homeward-io/homeward/e2e/history"
)

// request is what a merchant sends.
type request struct{ tenant, path, key, body string }

func charge(key string, amount int, method string) request {
	return request{path: "/v1/charges", key: key, body: fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":%q}`, amount, method)}
}

// load is what merchants send.
type load struct {
	w       *world
	ctx     context.Context // of every request
	history *history.History
	over    atomic.Bool
	next    atomic.Int64

	mu   sync.Mutex
	done []request // that were answered for good, and not refused
}

const (
	// patience is how long a merchant waits for an answer: longer than the slowest healthy one.
	patience = 20 * time.Second
	// pause between two keys of a merchant, at most.
	pause = 10 * time.Second
	// merchantsAtOnce keep a few requests in hand at each moment, so that a fault meets some.
	merchantsAtOnce = 3
	// blindMerchants do so where many keys wait for a notice that never comes.
	blindMerchants = 10
)

// merchant sends key after key, and now and then an old request.
func (l *load) merchant(number int) {
	for !l.over.Load() {
		i := l.next.Add(1)
		rng := rand.New(rand.NewPCG(l.w.seed, uint64(i)))
		l.key(number, int(i), rng)
		l.mu.Lock()
		var old request
		if len(l.done) > 0 && rng.IntN(3) == 0 {
			old = l.done[rng.IntN(len(l.done))]
		}
		l.mu.Unlock()
		// Where the store is put back it may lack the charge, until that is sent again.
		if old.key != "" && (l.w.bucket == nil || old.path != "/v1/refunds") {
			l.settle(number, old, rng)
		}
		time.Sleep(between(rng, pause))
	}
}

// key sends rivals under the i-th key, and retries each. All but their timing follows from the seed.
func (l *load) key(number, i int, rng *rand.Rand) {
	key := fmt.Sprintf("order-%d-%d", l.w.seed, i)
	code, stamped := 1+rng.IntN(len(l.w.regions())), rng.IntN(2) == 0
	if l.w.joins() { // merchants know the region before nodes do
		code, stamped = len(regions)+1, true
	}
	if stamped {
		key, _ = claim.Stamp(claim.RegionCode(code), seeded{rng}) // which does not fail
	}
	amount, method := 1000+2*i, "pm_card_visa"
	switch p := rng.IntN(100); {
	case p < 25:
		method = declinedOnce
	case p < 32:
		method = "pm_card_stolen"
	}
	held := false
	if p := rng.IntN(100); l.w.stripe && p < 50 {
		held = p < 30
		method = "pm_card_visa"
		if !held { // a bank, or the payer's, takes its time
			method = fmt.Sprintf("%s_%ds%s", []string{"pm_bank_debit", "pm_card_3ds"}[rng.IntN(2)], 1+rng.IntN(300), []string{"", "_fails"}[rng.IntN(2)])
		}
	}
	q, changed := charge(key, amount, method), charge(key, amount+1, method)
	switch {
	case l.w.api != nil:
		q.path = goods.All[rng.IntN(len(goods.All))]
		changed.path = q.path
	case held:
		q.body, changed.body = with(q.body, `"capture_method":"manual"`), with(changed.body, `"capture_method":"manual"`)
		if rng.IntN(4) == 0 {
			until := fmt.Sprintf(`"expires_at":%q`, l.w.now().Add(time.Minute+between(rng, 5*time.Minute)).UTC().Format(time.RFC3339))
			q.body, changed.body = with(q.body, until), with(changed.body, until)
		}
	case strings.HasPrefix(method, "pm_card_3ds"):
		q.body, changed.body = with(q.body, `"off_session":false`), with(changed.body, `"off_session":false`)
	case rng.IntN(8) == 0:
		q.path, q.body = "/v1/transfers", fmt.Sprintf(`{"amount":%d,"currency":"usd","destination":"acct_1"}`, amount)
		changed.path, changed.body = q.path, fmt.Sprintf(`{"amount":%d,"currency":"usd","destination":"acct_1"}`, amount+1)
	}
	if l.w.blind {
		q.body, changed.body = with(q.body, history.MayStayOpen), with(changed.body, history.MayStayOpen)
	}
	q.tenant = tenants[rng.IntN(len(tenants))]
	changed.tenant = q.tenant
	rivals := 1 + rng.IntN(4)
	if rng.IntN(20) == 0 {
		rivals = 16 // a storm
	}
	var all []request
	for r := range rivals {
		one := q
		if r > 0 && rng.IntN(5) == 0 {
			one = changed
		}
		all = append(all, one)
	}
	if rng.IntN(4) == 0 && !l.w.blind && l.w.bucket == nil || strings.HasSuffix(method, "_fails") { // it gives the key up, at one node or two, and goes on asking for an answer
		for range 1 + rng.IntN(2) {
			all = append(all, request{tenant: q.tenant, path: history.CancelPath, key: key})
		}
	}
	if held {
		var orders sync.WaitGroup
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		orders.Go(func() { l.orders(number, q, changed, own) })
		defer orders.Wait()
	}
	over, also := make(chan struct{}), rand.New(rand.NewPCG(l.w.seed, uint64(i)|1<<40))
	mayDispute := l.w.api == nil && l.w.bucket == nil && l.w.reports && q.path == "/v1/charges" && method == "pm_card_visa" && !held
	inDispute := mayDispute && len(all) == rivals && also.IntN(3) == 0
	inContest := mayDispute && len(all) > rivals && !l.w.stripe && also.IntN(2) == 0
	if inDispute || inContest {
		payers := map[bool]func([]int64, <-chan struct{}, *rand.Rand){true: l.disputed, false: l.contested}[inDispute]
		var payer sync.WaitGroup
		payer.Go(func() { payers([]int64{int64(amount), int64(amount) + 1}, over, also) })
		defer payer.Wait()
	}
	winner, got := l.rivals(number, all, rng)
	close(over)
	if inDispute || held || len(all) > rivals || got == nil || got.Status != http.StatusCreated || winner.path != "/v1/charges" || rng.IntN(4) > 0 {
		return
	}
	var made struct {
		ID     string
		Amount int
	}
	if json.Unmarshal(got.Body, &made) != nil {
		return // the judge says so
	}
	back := request{q.tenant, "/v1/refunds", "refund-" + key, fmt.Sprintf(`{"charge":%q,"amount":%d}`, made.ID, made.Amount)}
	if l.w.blind {
		back.body = with(back.body, history.MayStayOpen)
	}
	if l.w.bucket != nil { // A store that was put back may lack the charge, until it is sent again.
		refunded := make(chan struct{})
		var again sync.WaitGroup
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		again.Go(func() {
			for {
				select {
				case <-refunded:
					return
				case <-time.After(time.Minute):
					l.settle(number, winner, own)
				}
			}
		})
		defer again.Wait()
		defer close(refunded)
	}
	if rng.IntN(3) > 0 || l.w.blind || l.w.bucket != nil {
		_, got := l.rivals(number, []request{back, back}[:1+rng.IntN(2)], rng)
		if l.w.reports && !l.w.blind && l.w.bucket == nil && also.IntN(3) == 0 {
			l.refundReturned(got)
		}
		return
	}
	// One person refunds a part, or all, while another one gives the key up.
	if rng.IntN(2) == 0 {
		back.body = fmt.Sprintf(`{"charge":%q,"amount":%d}`, made.ID, 1+rng.IntN(made.Amount))
	}
	var other sync.WaitGroup
	own := rand.New(rand.NewPCG(rng.Uint64(), 0))
	other.Go(func() { l.rivals(number, []request{{tenant: q.tenant, path: history.CancelPath, key: key}}, own) })
	l.rivals(number, []request{back}, rng)
	other.Wait()
}

// with adds a member to a body.
func with(body, member string) string { return strings.TrimSuffix(body, "}") + "," + member + "}" }

// orders ends the hold of the charge that q makes, or changed if the key belongs to that, by what two people order at
// about the same time.
func (l *load) orders(number int, q, changed request, rng *rand.Rand) {
	var made struct {
		ID, Status string
		Amount     int
	}
	for made.Status != "requires_capture" {
		time.Sleep(time.Second + between(rng, 10*time.Second))
		r := l.attempt(number, l.anyone(rng), q, patience)
		switch {
		case r.Status == http.StatusUnprocessableEntity:
			q = changed
		case r.Final() || l.ctx.Err() != nil:
			return
		case r.Status == http.StatusAccepted && json.Unmarshal(r.Body, &made) != nil:
			return // the judge says so
		}
	}
	time.Sleep(between(rng, []time.Duration{time.Second, time.Minute, 10 * time.Minute}[rng.IntN(3)]))
	all := []request{
		{path: "/capture", body: "{}"}, {path: "/capture", body: fmt.Sprintf(`{"amount":%d}`, 1+rng.IntN(made.Amount))}, {path: "/cancel", body: "{}"},
	}
	var people sync.WaitGroup
	for i := range 1 + rng.IntN(2) {
		o := all[rng.IntN(len(all))]
		o.tenant, o.path, o.key = q.tenant, "/v1/charges/"+made.ID+o.path, fmt.Sprintf("order-%d-of-%s", i, q.key)
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		people.Go(func() { l.rivals(number, []request{o, o}[:1+own.IntN(2)], own) })
	}
	people.Wait()
	// A charge that nobody ended is canceled, again and again: the orders may have been refused.
	for i := range 100 {
		end := request{q.tenant, "/v1/charges/" + made.ID + "/cancel", fmt.Sprintf("end-%d-of-%s", i, q.key), "{}"}
		if r := l.settle(number, end, rng); r.Status == http.StatusOK || r.Problem.Code != "order_in_progress" && r.Problem.Code != "charge_not_capturable" || l.ctx.Err() != nil {
			return
		}
		time.Sleep(between(rng, 30*time.Second))
	}
}

type seeded struct{ rng *rand.Rand }

func (s seeded) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.rng.Uint32())
	}
	return len(p), nil
}

// rivals sends requests at once, and returns the one that the key belongs to, with its answer.
func (l *load) rivals(number int, all []request, rng *rand.Rand) (winner request, got *answer.Answer) {
	var wg sync.WaitGroup
	last := make([]*answer.Answer, len(all))
	for i, q := range all {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() {
			within := 2 * time.Duration(1+own.IntN(1000)) * time.Millisecond
			if q.path == history.CancelPath {
				within = []time.Duration{2 * time.Second, 20 * time.Second, 3 * time.Minute}[own.IntN(3)]
			}
			time.Sleep(between(own, within))
			last[i] = l.settle(number*16+i, q, own)
		})
	}
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range last {
		switch {
		case !r.Final() || r.Status == http.StatusUnprocessableEntity:
		case all[i].path == history.CancelPath:
			l.done = append(l.done, all[i])
		case got == nil:
			l.done, winner, got = append(l.done, all[i]), all[i], r
		}
	}
	return winner, got
}

// settle sends q until an answer is final: often to the node that it has tried before, and at times
// with little patience.
func (l *load) settle(number int, q request, rng *rand.Rand) *answer.Answer {
	m := l.anyone(rng)
	for tries := 1; ; tries++ {
		patience := patience
		if rng.IntN(10) == 0 {
			patience = 20*time.Millisecond + between(rng, 400*time.Millisecond)
		}
		r := l.attempt(number, m, q, patience)
		if r.Final() && r.Problem.Code != "not_refundable" || l.ctx.Err() != nil { // beside another refund, it may be the next time
			return r
		}
		again := 100*time.Millisecond + between(rng, 900*time.Millisecond)
		if ms := r.Problem.RetryAfterMS; r.Err == nil && ms > 0 {
			again = min(time.Duration(ms)*time.Millisecond, 5*time.Second) + between(rng, 100*time.Millisecond)
		}
		if r.Status == http.StatusAccepted { // it waits for a person or a bank
			again = time.Second + between(rng, 20*time.Second)
		}
		if tries > 50 {
			again += between(rng, min(time.Duration(tries)*100*time.Millisecond, time.Minute))
		}
		time.Sleep(again)
		if rng.IntN(2) == 0 {
			m = l.anyone(rng)
		}
	}
}

// anyone is any node.
func (l *load) anyone(rng *rand.Rand) *machine {
	all := l.w.nodes()
	return all[rng.IntN(len(all))]
}

// send makes one request of a merchant of the node's region.
func (l *load) send(ctx context.Context, m *machine, q request) *answer.Answer {
	path := q.path
	if path == history.CancelPath {
		path = map[bool]string{true: "/_homeward", false: "/v1"}[l.w.api != nil] + "/idempotency-keys/" + url.PathEscape(q.key) + "/cancel"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base()+path, strings.NewReader(q.body))
	if err != nil {
		return &answer.Answer{Err: err}
	}
	l.w.from(req, q.tenant)
	if q.path != history.CancelPath {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", q.key)
	}
	return answer.To(req, l.w.client[m.region])
}

func (l *load) attempt(number int, m *machine, q request, patience time.Duration) *answer.Answer {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	start := time.Now()
	r := l.send(ctx, m, q)
	at, got := m.name, r.Got()
	switch {
	case q.path == history.CancelPath:
		got = r.Became()
	case strings.HasPrefix(q.path, "/v1/charges/") && r.Status != http.StatusOK, q.path == "/v1/refunds" && r.Status != http.StatusCreated && (!r.Final() || !l.w.blind || r.Status != http.StatusServiceUnavailable): // refused as things are
		got = history.Got{Kind: history.None}
	}
	if got.Kind == history.None {
		if at += ": no answer"; r.Err == nil {
			at = fmt.Sprint(m.name, ": ", r.Status, " ", r.Problem.Error)
		}
	}
	l.history.AddAt(number, at, history.Sent{Key: q.tenant + "/" + q.key, Body: q.body, Path: q.path}, start, got)
	return r
}

// again sends all that was answered once more in every region, and reports what is not answered as
// want says.
func (l *load) again(want func(r *answer.Answer) bool) (wrong []string) {
	for i, q := range l.done {
		for j := range l.w.regions() {
			m := l.w.nodes()[perRegion*j+i%perRegion]
			var r *answer.Answer
			for range 60 {
				if r = l.attempt(0, m, q, patience); r.Final() {
					break
				}
				time.Sleep(time.Second)
			}
			if !want(r) {
				wrong = append(wrong, fmt.Sprintf("%s/%s in %s: %v", q.tenant, q.key, m.region, r))
			}
		}
	}
	return wrong
}
