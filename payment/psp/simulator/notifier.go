package simulator

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// delivery is one event for one target.
type delivery struct {
	due    time.Time
	record int
	target signer
	tries  int
	// then may be tried once this one has been.
	then []delivery
}

type deliveries []delivery

func (d deliveries) Len() int { return len(d) }

func (d deliveries) Less(i, j int) bool { return d[i].due.Before(d[j].due) }

func (d deliveries) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

func (d *deliveries) Push(x any) { *d = append(*d, x.(delivery)) }

func (d *deliveries) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

// notifier sends events. It reads the durable records by their number, so that its
// state across a restart is one number: everything below it was sent. What was sent
// above it is sent again.
type notifier struct {
	sim  *Simulator
	path string // of its file; "" in memory

	wake    chan struct{}
	ctx     context.Context // ends the queue
	cancel  context.CancelFunc
	tries   context.Context // ends tries under way
	abandon context.CancelFunc
	client  *http.Client
	slots   chan struct{}
	wg      sync.WaitGroup

	mu      sync.Mutex
	started bool
	stopped bool
	set     Notices
	signers []signer
	rng     *rand.Rand
	next    int         // the first record not looked at
	low     int         // below it all is sent
	open    map[int]int // record → deliveries yet to be made
	queue   deliveries
	held    []delivery
	stats   NoticeStats
	saved   time.Time
	savedAt int
}

func newNotifier(s *Simulator, dir string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *notifier {
	ctx, cancel := context.WithCancel(context.Background())
	tries, abandon := context.WithCancel(context.Background())
	n := &notifier{
		sim: s, wake: make(chan struct{}, 1), ctx: ctx, cancel: cancel, tries: tries, abandon: abandon, open: map[int]int{},
		slots: make(chan struct{}, sendingAtOnce), rng: rand.New(rand.NewPCG(0, 0)),
		client: &http.Client{
			Timeout: sendTimeout,
			Transport: &http.Transport{
				DialContext:         dial,
				MaxIdleConnsPerHost: sendingAtOnce,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if dir != "" {
		n.path = filepath.Join(dir, noticesName)
	}
	return n
}

// savedNotices is the file.
type savedNotices struct {
	Notices noticesWire `json:"webhooks"`
	// Sent is how many of the journal's outcomes need no event any more.
	Sent int `json:"sent"`
}

// apply applies w. Events start with record from if there was no target before.
func (n *notifier) apply(w Notices, from int) error {
	signers, err := w.signers()
	if err != nil {
		return fmt.Errorf("simulator: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.signers) == 0 {
		n.next, n.low = from, from
	}
	n.set, n.signers = w, signers
	n.rng = rand.New(rand.NewPCG(w.Seed, 0))
	if len(signers) == 0 {
		n.queue, n.held = nil, nil
		clear(n.open)
	}
	if !w.Hold {
		n.releaseLocked("")
	}
	if err := n.saveLocked(); err != nil {
		return err
	}
	if len(signers) > 0 && !n.started && !n.stopped {
		n.started = true
		n.wg.Go(n.run)
	}
	n.kick()
	return nil
}

func (n *notifier) kick() {
	select {
	case n.wake <- struct{}{}:
	default: // already awake, and will look again
	}
}

func (n *notifier) releaseLocked(order string) int {
	held := n.held
	n.held = nil
	switch order {
	case ReleaseReversed:
		slices.Reverse(held)
	case ReleaseShuffled:
		n.rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	}
	now := time.Now()
	for i := range held {
		held[i].due = now
	}
	switch {
	case order == "":
		for _, d := range held {
			heap.Push(&n.queue, d)
		}
	case len(held) > 0:
		n.chainLocked(held)
	}
	n.kick()
	return len(held)
}

// chainLocked queues deliveries to be tried one after the other.
func (n *notifier) chainLocked(all []delivery) {
	first := all[0]
	first.then = all[1:]
	heap.Push(&n.queue, first)
}

func (n *notifier) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		n.look()
		wait := n.send()
		if wait >= 0 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-n.ctx.Done():
			return
		case <-n.wake:
		case <-timer.C:
		}
	}
}

// look queues the events of records that have become durable since its last call.
func (n *notifier) look() {
	for {
		n.mu.Lock()
		if len(n.signers) == 0 {
			n.mu.Unlock()
			return
		}
		from, declines := n.next, n.set.Declines
		n.mu.Unlock()

		n.sim.mu.Lock()
		end := min(from+effectsPage, n.sim.durable)
		var due []tidings
		for i := from; i < end; i++ {
			switch v := n.sim.book.at(i).outcome; {
			case v == approved, v == failedSince, v == happened, v.open(), v == canceledCharge, n.sim.book.acted(i), declines && outcomes[v].Class > 0:
				due = append(due, tidings{i, false})
			case v == refundExceedsCharge, v == currencyMismatch:
				due = append(due, tidings{i, true})
			}
		}
		n.sim.mu.Unlock()
		if end <= from {
			return
		}

		n.mu.Lock()
		if n.next == from { // no other caller has looked meanwhile
			for _, t := range due {
				n.queueLocked(t)
			}
			n.next = end
			n.advanceLocked()
		}
		n.mu.Unlock()
	}
}

// tidings is a record to report to all targets, or only to those that get Adyen's
// events.
type tidings struct {
	record int
	adyen  bool
}

// queueLocked takes the same number of draws per target, whatever their results.
func (n *notifier) queueLocked(of tidings) {
	i := of.record
	for _, t := range n.signers {
		if of.adyen && !t.Adyen {
			continue
		}
		drop, twice, first, second := n.rng.Float64(), n.rng.Float64(), n.rng.Float64(), n.rng.Float64()
		if drop < n.set.Drop {
			n.stats.Dropped++
			continue
		}
		draws := []float64{first}
		if twice < n.set.Duplicate {
			n.stats.Duplicated++
			draws = append(draws, second)
		}
		for _, draw := range draws {
			d := delivery{record: i, target: t, due: time.Now().Add(n.set.Delay + time.Duration(draw*float64(n.set.Jitter)))}
			n.open[i]++
			if n.set.Hold {
				n.held = append(n.held, d)
			} else {
				heap.Push(&n.queue, d)
			}
		}
	}
}

// send starts the deliveries that are due and returns how long the next has to
// wait, -1 when there is none.
func (n *notifier) send() time.Duration {
	for {
		n.mu.Lock()
		if len(n.queue) == 0 {
			n.mu.Unlock()
			return -1
		}
		if wait := time.Until(n.queue[0].due); wait > 0 {
			n.mu.Unlock()
			return wait
		}
		d := heap.Pop(&n.queue).(delivery)
		n.mu.Unlock()
		select {
		case n.slots <- struct{}{}:
		case <-n.ctx.Done():
			return -1
		}
		n.wg.Go(func() {
			n.deliver(d)
			<-n.slots
		})
	}
}

func (n *notifier) deliver(d delivery) {
	err := n.post(d)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(d.then) > 0 {
		n.chainLocked(d.then)
		n.kick()
		d.then = nil
	}
	if err == nil {
		n.stats.Sent++
		n.doneLocked(d.record)
		return
	}
	if n.tries.Err() != nil {
		return // not sent, and stored as such
	}
	n.stats.Failed++
	if d.tries++; d.tries >= triesPerDelivery {
		n.stats.Abandoned++
		n.doneLocked(d.record)
		return
	}
	pause := n.set.RetryAfter
	if pause == 0 {
		pause = firstRetry
	}
	for range d.tries - 1 {
		if pause *= 2; pause >= slowestRetry {
			break
		}
	}
	d.due = time.Now().Add(min(pause, max(slowestRetry, n.set.RetryAfter)))
	heap.Push(&n.queue, d)
	n.kick()
}

func (n *notifier) doneLocked(record int) {
	if n.open[record]--; n.open[record] <= 0 {
		delete(n.open, record)
	}
	n.advanceLocked()
}

func (n *notifier) advanceLocked() {
	for n.low < n.next && n.open[n.low] == 0 {
		n.low++
	}
	if n.low > n.savedAt && time.Since(n.saved) >= saveEvery {
		if err := n.saveLocked(); err != nil {
			n.sim.logger.Warn("the simulator could not record which webhooks it sent, and may send them again", "error", err)
		}
	}
}

func (n *notifier) saveLocked() error {
	n.saved, n.savedAt = time.Now(), n.low
	if n.path == "" {
		return nil
	}
	raw, err := json.Marshal(savedNotices{n.set.wire(), n.low})
	if err == nil {
		err = os.WriteFile(n.path+".new", append(raw, '\n'), 0o600)
	}
	if err == nil { // so that there is always a whole one
		err = os.Rename(n.path+".new", n.path)
	}
	if err != nil {
		return fmt.Errorf("simulator: write webhooks: %w", err)
	}
	return nil
}

// stop ends all sending. The next process sends the rest.
func (n *notifier) stop() error {
	n.mu.Lock()
	n.stopped = true
	n.mu.Unlock()
	n.cancel()
	grace := time.AfterFunc(stopGrace, n.abandon)
	n.wg.Wait()
	grace.Stop()
	n.abandon()
	n.client.CloseIdleConnections()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.started {
		return nil
	}
	return n.saveLocked()
}

// event is a notice in the provider's own shape.
type event struct {
	ID      string      `json:"id"`
	Type    string      `json:"type"`
	Created int64       `json:"created"` // s since the Unix epoch
	Data    outcomeBody `json:"data"`
}

func eventID(i int) string { return fmt.Sprintf("evt_%012x", i+1) }

// post makes one try.
func (n *notifier) post(d delivery) error {
	n.sim.mu.Lock()
	rec, id, failed := n.sim.reported(d.record)
	charge, refund := n.sim.book.refundOf[uint32(id)]
	what, unasked := n.sim.book.happening(d.record)
	reference, ordered, order := n.sim.adyenReference(id), false, adyenItem{}
	if n.sim.book.acted(d.record) {
		order, ordered = n.sim.adyenActEvent(rec, d.record, id)
	}
	n.sim.mu.Unlock()
	now := n.sim.now()

	var body []byte
	var err error
	header := http.Header{"Content-Type": {"application/json"}}
	switch {
	case d.target.Adyen && unasked:
		if body, err = what.adyenEvent(d.target.adyen); err != nil || body == nil {
			return err
		}
	case d.target.Adyen && ordered:
		if body, err = order.signed(d.target.adyen); err != nil {
			return err
		}
	case d.target.Adyen && (rec.outcome == needsAction || rec.outcome == processing):
		return nil // it reports when that is over
	case d.target.Adyen:
		if body, err = adyenEvent(rec, reference, d.record, id, int(charge), failed, d.target.adyen); err != nil {
			return err
		}
	case d.target.Stripe:
		e := stripeEvent(rec, d.record, id, int(charge), refund, failed)
		if unasked {
			e = what.stripeEvent(d.record)
		}
		if body, err = json.Marshal(e); err != nil {
			return err
		}
		header.Set("Stripe-Signature", stripeSignature(d.target.Secret, now, body))
	default:
		if !failed && rec.outcome.open() {
			return nil // the plain API has no such charges
		}
		out := describe(rec, id)
		if failed {
			out.ID = formatID(rec.kind(), id)
			out.failed()
		}
		var e any = event{eventID(d.record), string(rec.kind()) + "." + out.Status, out.Created, out}
		if unasked {
			e = what.event()
		}
		if body, err = json.Marshal(e); err != nil {
			return err
		}
		signature, err := d.target.standard.Sign(eventID(d.record), now, body)
		if err != nil {
			return err
		}
		header.Set(standardwebhooks.HeaderWebhookID, eventID(d.record))
		header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	req, err := http.NewRequestWithContext(n.tries, http.MethodPost, d.target.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	res, err := n.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxBody) // so that the connection can be used again
	_ = res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

// stripeSignature is Stripe's scheme: the time and the body, HMAC-SHA256, hex.
func stripeSignature(secret string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.", at.Unix()) // a hash takes everything
	_, _ = mac.Write(body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}
