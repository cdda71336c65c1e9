package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/client"
)

// The mix, in percent.
const (
	repeatShare   = 20 // of requests: an old payment once more
	rivalShare    = 5  // of new payments: sent to two regions at once
	transferShare = 20 // of new payments
	stolenShare   = 5  // of new charges
	stampedShare  = 50 // of new keys
)

const (
	// manyAttempts: a call continues until it is answered or the drill's patience ends,
	// not until a number of attempts.
	manyAttempts = 1 << 20
	// attemptTime bounds one request: longer than the wait for a rival (5 s), so that
	// it only expires if nothing answers.
	attemptTime = 10 * time.Second
	// idleConns is how many connections are kept to each node: what a thousand
	// requests per second of a tenth of a second need, with room.
	idleConns = 256
)

// send is one due call.
type send struct {
	i     int  // of the payment
	fresh bool // it is a new one
	due   time.Time
	bases []string // the nodes to try, in this order
}

// load makes requests at a fixed rate until stop is closed, and returns once
// all of them have their answer or ctx ends.
func (d *drill) load(ctx context.Context, stop <-chan struct{}) {
	var calls sync.WaitGroup
	defer calls.Wait()
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := range maxPayments {
		due := d.history.began.Add(time.Duration(float64(n) / d.c.Rate * float64(time.Second)))
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
		for _, s := range d.next(rng, due) {
			d.history.sent(due)
			calls.Go(func() { d.call(ctx, s) })
		}
	}
}

// next decides what is due now: one request, or two rivals.
func (d *drill) next(rng *rand.Rand, due time.Time) []send {
	if rng.IntN(100) < repeatShare {
		if i, ok := d.history.old(rng); ok {
			return []send{{i, false, due, d.way(rng, -1)}}
		}
	}
	p := payment{tenant: uint8(rng.IntN(len(d.c.APIKeys))), home: -1}
	p.transfer = rng.IntN(100) < transferShare
	p.stolen = !p.transfer && rng.IntN(100) < stolenShare
	p.key = uuid.NewString()
	if rng.IntN(100) < stampedShare {
		if home := d.pick(rng, -1); home >= 0 {
			if key, err := claim.Stamp(d.codes[home], nil); err == nil { // otherwise it stays opaque
				p.key, p.home = key, int16(home)
			}
		}
	}
	entry := d.pick(rng, -1)
	i := d.history.add(p)
	sends := []send{{i, true, due, d.way(rng, entry)}}
	if rng.IntN(100) < rivalShare {
		sends = append(sends, send{i, true, due, d.way(rng, d.pick(rng, entry))})
	}
	return sends
}

// pick chooses a region for new traffic, another than the given one if there is one.
func (d *drill) pick(rng *rand.Rand, not int) int {
	shunned := d.shunned.Load()
	var from []int
	for i, r := range d.c.Regions {
		if i != not && (shunned == nil || *shunned != r.Name) {
			from = append(from, i)
		}
	}
	if len(from) == 0 {
		return max(not, 0)
	}
	return from[rng.IntN(len(from))]
}

// way lists one node of each region, first of the entry's, the others at random, and
// then the remaining nodes.
func (d *drill) way(rng *rand.Rand, entry int) []string {
	if entry < 0 {
		entry = d.pick(rng, -1)
	}
	order := rng.Perm(len(d.c.Regions))
	for i, r := range order {
		if r == entry {
			order[0], order[i] = order[i], order[0]
		}
	}
	var first, rest []string
	for _, r := range order {
		urls := d.c.Regions[r].URLs
		one := rng.IntN(len(urls))
		first = append(first, urls[one])
		rest = append(rest, urls[one+1:]...)
		rest = append(rest, urls[:one]...)
	}
	return append(first, rest...)
}

// shun excludes a region from new traffic, and new keys; "" excludes none.
func (d *drill) shun(region string) { d.shunned.Store(&region) }

// call completes one send. It is what a merchant's program does with package client,
// except for its patience.
func (d *drill) call(ctx context.Context, s send) {
	p := d.history.get(s.i)
	home, entry := "", ""
	if p.home >= 0 {
		home = d.c.Regions[p.home].Name
	}
	w := &watch{next: d.transport, entries: d.entries, seen: func(n int, e *exchange) {
		if n == 1 {
			entry = e.entry
		}
		d.history.exchanged(n, e, home, s.fresh)
		d.history.answer(s.i, e)
	}}
	if d.pay(ctx, s.bases, w, s.i, &p) != nil {
		return // unanswered: the history has no answer for it
	}
	d.history.timed(s.due, w.last.ended, w.n, s.fresh, entry)
}

// pay retries until it has a final answer. An error means that no answer could be
// parsed.
func (d *drill) pay(ctx context.Context, bases []string, w *watch, i int, p *payment) error {
	cl, err := client.New(client.Config{
		BaseURLs: bases, APIKey: d.c.APIKeys[p.tenant], MaxAttempts: manyAttempts, Timeout: attemptTime,
		HTTPClient: &http.Client{Transport: w},
	})
	if err != nil {
		return err
	}
	for {
		err := order(ctx, cl, d.base+int64(i), p)
		var refused *client.Error
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return err
		case !errors.As(err, &refused):
			return err
		case refused.Retry != client.RetrySameKey:
			return nil // a final answer
		}
		// The client leaves this retry to the caller: the pause is long, or the card
		// may be retried. A drill retries.
		if err := pause(ctx, max(refused.RetryAfter, time.Second)); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// order builds the payment's request, which follows from the payment alone.
func order(ctx context.Context, cl *client.Client, amount int64, p *payment) error {
	const currency = "usd"
	if p.transfer {
		_, err := cl.Transfer(ctx, client.TransferParams{Amount: amount, Currency: currency, Destination: "acct_drill", IdempotencyKey: p.key})
		return err
	}
	card := "pm_card_visa"
	if p.stolen {
		card = "pm_card_stolen"
	}
	_, err := cl.Charge(ctx, client.ChargeParams{Amount: amount, Currency: currency, PaymentMethod: card, IdempotencyKey: p.key})
	return err
}

const (
	// auditors is how many payments are requested concurrently after the load: enough
	// to be quick, and fewer than during the load.
	auditors = 16
)

// audit requests every answered payment once more, in any region, and the state of the
// other keys. It returns how many answers it compared and how many claims are open.
// Keys that cannot be read before ctx ends are errors.
func (d *drill) audit(ctx context.Context) (compared, open int, err error) {
	all := d.history.all()
	var next, same, inFlight, unread atomic.Int64
	var workers sync.WaitGroup
	for range auditors {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			for {
				i := int(next.Add(1) - 1)
				if i >= len(all) {
					return
				}
				bases := d.way(rng, -1)
				if !all[i].answered {
					switch claimed, err := d.claimed(ctx, bases, &all[i]); {
					case err != nil:
						unread.Add(1)
					case claimed:
						inFlight.Add(1)
					}
					continue
				}
				w := &watch{next: d.transport, entries: d.entries, seen: func(_ int, e *exchange) { d.history.answer(i, e) }}
				if d.pay(ctx, bases, w, i, &all[i]) != nil {
					unread.Add(1)
					continue
				}
				same.Add(1)
			}
		})
	}
	workers.Wait()
	if n := unread.Load(); n > 0 {
		err = fmt.Errorf("%d of %d keys could not be read afterwards; the cluster has not recovered within %v", n, len(all), d.c.Patience)
	}
	return int(same.Load()), int(inFlight.Load()), err
}

// claimed reports whether a payment's key has a claim in flight, by the first node that
// answers.
func (d *drill) claimed(ctx context.Context, bases []string, p *payment) (claimed bool, err error) {
	for _, base := range bases {
		var state struct {
			State string `json:"state"`
		}
		var status int
		status, err = d.ask(ctx, http.MethodGet, base+"/v1/idempotency-keys/"+p.key, d.c.APIKeys[p.tenant], "", &state)
		if err == nil && (status == http.StatusOK || status == http.StatusNotFound) {
			return state.State == "IN_FLIGHT", nil
		}
		if err == nil {
			err = fmt.Errorf("status %d", status)
		}
	}
	return false, err
}

// ask makes one request outside of the load.
func (d *drill) ask(ctx context.Context, method, url, apiKey, body string, into any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := d.transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	err = json.NewDecoder(http.MaxBytesReader(nil, res.Body, maxAnswer)).Decode(into)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}
