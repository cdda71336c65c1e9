package simulator

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Notices is how the provider tells of movements unasked. Each target is sent
// one event per movement, signed anew at each try, until it answers 2xx; ids are
// the same however often it is sent. The zero value sends nothing.
type Notices struct {
	Targets []NoticeTarget
	// Delay, plus up to Jitter, passes between a movement and its event. Jitter
	// puts events out of order. Both are 0 to [MaxLate].
	Delay, Jitter time.Duration
	// Duplicate is how likely an event is sent a second time, with a delay of its
	// own; Drop how likely it is never sent.
	Duplicate, Drop float64
	// RetryAfter is the pause after the first failed try, doubled up to a minute;
	// 0 means a second.
	RetryAfter time.Duration
	// Hold keeps events back until [Simulator.ReleaseNotices].
	Hold bool
	// Declines sends events about declines too.
	Declines bool
	// Seed restarts the sequence of draws, each time notices are set.
	Seed uint64
}

// NoticeTarget is who is told.
type NoticeTarget struct {
	// URL is absolute, http or https.
	URL string `json:"url"`
	// Secret signs: base64, with or without "whsec_", for the provider's own events;
	// any text for Stripe's.
	Secret string `json:"secret"`
	// Stripe sends events in Stripe's shape, signed in Stripe's way, in place of
	// those of the package comment with Standard Webhooks signatures.
	Stripe bool `json:"stripe,omitempty"`
}

// NoticeStats is what has been set and what came of it. The counters are those
// of this process.
type NoticeStats struct {
	Notices noticesWire `json:"webhooks"`
	// Sent is how many deliveries were answered 2xx, Failed how many tries were
	// not, Abandoned how many deliveries were given up for that.
	Sent      int64 `json:"sent"`
	Failed    int64 `json:"failed"`
	Abandoned int64 `json:"abandoned"`
	// Dropped and Duplicated count the faults injected.
	Dropped    int64 `json:"dropped"`
	Duplicated int64 `json:"duplicated"`
	// Pending is how many deliveries are to be made, Held how many of them wait for
	// a release.
	Pending int `json:"pending"`
	Held    int `json:"held"`
}

// noticesWire is Notices as JSON, on the wire and on disk.
type noticesWire struct {
	Targets    []NoticeTarget `json:"targets"`
	DelayMS    float64        `json:"delay_ms"`
	JitterMS   float64        `json:"jitter_ms"`
	Duplicate  float64        `json:"duplicate"`
	Drop       float64        `json:"drop"`
	RetryAfter float64        `json:"retry_after_ms"`
	Hold       bool           `json:"hold"`
	Declines   bool           `json:"declines"`
	Seed       uint64         `json:"seed"`
}

func (w Notices) wire() noticesWire {
	return noticesWire{w.Targets, milliseconds(w.Delay), milliseconds(w.Jitter), w.Duplicate, w.Drop,
		milliseconds(w.RetryAfter), w.Hold, w.Declines, w.Seed}
}

func (w noticesWire) notices() (Notices, error) {
	out := Notices{Targets: w.Targets, Duplicate: w.Duplicate, Drop: w.Drop, Hold: w.Hold, Declines: w.Declines, Seed: w.Seed}
	for _, m := range []struct {
		name string
		ms   float64
		to   *time.Duration
	}{{"delay_ms", w.DelayMS, &out.Delay}, {"jitter_ms", w.JitterMS, &out.Jitter}, {"retry_after_ms", w.RetryAfter, &out.RetryAfter}} {
		d, err := fromMilliseconds(m.name, m.ms, MaxLate)
		if err != nil {
			return Notices{}, fmt.Errorf("webhooks: %w", err)
		}
		*m.to = d
	}
	return out, nil
}

const (
	// maxTargets is more than a test needs.
	maxTargets = 16
	// sendingAtOnce bounds the deliveries under way.
	sendingAtOnce = 64
	// sendTimeout bounds one try: a receiver has only to keep the body.
	sendTimeout  = 10 * time.Second
	firstRetry   = time.Second
	slowestRetry = time.Minute
	// triesPerDelivery give a receiver that is down three days to come back, as
	// Stripe does.
	triesPerDelivery = 3 * 24 * 60
	// saveEvery bounds how much a process that dies sends again.
	saveEvery = time.Second
	// stopGrace lets tries under way end, so that the next process need not repeat
	// them.
	stopGrace   = time.Second
	noticesName = "webhooks.json"
)

// signer signs and spells events for a target.
type signer struct {
	NoticeTarget
	standard *standardwebhooks.Webhook // nil for Stripe
}

func (w Notices) signers() ([]signer, error) {
	if len(w.Targets) > maxTargets {
		return nil, fmt.Errorf("webhooks: %d targets: at most %d", len(w.Targets), maxTargets)
	}
	var out []signer
	for _, t := range w.Targets {
		u, err := url.Parse(t.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("webhooks: url %q: must be an absolute http or https URL", t.URL)
		}
		s := signer{NoticeTarget: t}
		if t.Secret == "" {
			return nil, fmt.Errorf("webhooks: the target %s has no secret", t.URL)
		}
		if !t.Stripe {
			if s.standard, err = standardwebhooks.NewWebhook(t.Secret); err != nil {
				return nil, fmt.Errorf("webhooks: the secret for %s is not base64", t.URL)
			}
		}
		out = append(out, s)
	}
	for name, d := range map[string]time.Duration{"delay": w.Delay, "jitter": w.Jitter, "retry after": w.RetryAfter} {
		if d < 0 || d > MaxLate {
			return nil, fmt.Errorf("webhooks: %s must be 0 to %s", name, MaxLate)
		}
	}
	for name, p := range map[string]float64{"duplicate": w.Duplicate, "drop": w.Drop} {
		if err := probability(name, p); err != nil {
			return nil, fmt.Errorf("webhooks: %w", err)
		}
	}
	return out, nil
}

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

func (d deliveries) Len() int           { return len(d) }
func (d deliveries) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d deliveries) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deliveries) Push(x any)        { *d = append(*d, x.(delivery)) }
func (d *deliveries) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

// notifier sends events. It reads the durable records by their number, so that
// what it remembers across a restart is one number: below it all is sent. What
// was sent above it is sent again.
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

func newNotifier(s *Simulator, dir string) *notifier {
	ctx, cancel := context.WithCancel(context.Background())
	tries, abandon := context.WithCancel(context.Background())
	n := &notifier{
		sim: s, wake: make(chan struct{}, 1), ctx: ctx, cancel: cancel, tries: tries, abandon: abandon, open: map[int]int{},
		slots: make(chan struct{}, sendingAtOnce), rng: rand.New(rand.NewPCG(0, 0)),
		client: &http.Client{
			Timeout: sendTimeout,
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: sendTimeout}).DialContext,
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

// resumeNotices goes on where an earlier process stopped, or as told.
func (s *Simulator) resumeNotices(told *Notices) error {
	n := s.notices
	if n.path != "" {
		raw, err := os.ReadFile(n.path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return fmt.Errorf("simulator: read webhooks: %w", err)
		default:
			var saved savedNotices
			if err := decodeStrictly(bytes.NewReader(raw), &saved); err != nil || saved.Sent < 0 {
				return fmt.Errorf("simulator: %s is not readable: restore it from a copy, or move it away to send nothing", n.path)
			}
			w, err := saved.Notices.notices()
			if err != nil {
				return fmt.Errorf("simulator: %s: %w", n.path, err)
			}
			// A journal that was moved away starts its numbers again.
			if err := n.apply(w, min(saved.Sent, s.durable)); err != nil {
				return err
			}
		}
	}
	if told != nil {
		return s.SetNotices(*told)
	}
	return nil
}

// SetNotices replaces what is set, restarts the draws from Seed, and, in a
// simulator with a Dir, remembers it. Where nobody was told before, only what
// moves from now on is told; deliveries already due to a target keep their time
// and URL. Without targets what is due is forgotten. It changes nothing when a
// member is out of range.
func (s *Simulator) SetNotices(w Notices) error {
	s.mu.Lock()
	from := s.durable
	s.mu.Unlock()
	return s.notices.apply(w, from)
}

// apply sets w. Records from on are told of, where nobody is told of any yet.
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

// NoticeStats returns what is set and what came of it.
func (s *Simulator) NoticeStats() NoticeStats {
	n := s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.stats
	st.Notices = n.set.wire()
	st.Held = len(n.held)
	for _, left := range n.open {
		st.Pending += left
	}
	return st
}

// Orders in which held events are released: as the movements were made, the last
// first, or at random.
const (
	ReleaseInOrder  = "in_order"
	ReleaseReversed = "reversed"
	ReleaseShuffled = "shuffled"
)

// ReleaseNotices sends what is held back by now, one after the other in the
// given order, and returns how many. Hold goes on for what comes later.
func (s *Simulator) ReleaseNotices(order string) (int, error) {
	if order == "" {
		order = ReleaseInOrder
	}
	if !slices.Contains([]string{ReleaseInOrder, ReleaseReversed, ReleaseShuffled}, order) {
		return 0, fmt.Errorf("simulator: order %q: use %s, %s or %s", order, ReleaseInOrder, ReleaseReversed, ReleaseShuffled)
	}
	s.notices.look()
	n := s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.releaseLocked(order), nil
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

// DiscardNotices forgets what is held back by now, and returns how many.
func (s *Simulator) DiscardNotices() int {
	n := s.notices
	n.look()
	n.mu.Lock()
	defer n.mu.Unlock()
	held := n.held
	n.held = nil
	for _, d := range held {
		n.stats.Dropped++
		n.doneLocked(d.record)
	}
	return len(held)
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

// look queues the events of records that have become durable since it last did.
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
		var tell []int
		for i := from; i < end; i++ {
			if v := n.sim.book.at(i).outcome; v == approved || v == failedSince || (declines && outcomes[v].Class > 0) {
				tell = append(tell, i)
			}
		}
		n.sim.mu.Unlock()
		if end <= from {
			return
		}

		n.mu.Lock()
		if n.next == from { // nobody else has looked meanwhile
			for _, i := range tell {
				n.queueLocked(i)
			}
			n.next = end
			n.advanceLocked()
		}
		n.mu.Unlock()
	}
}

// queueLocked takes the same number of draws per target, whatever they come to.
func (n *notifier) queueLocked(i int) {
	for _, t := range n.signers {
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
		return // not sent, and remembered as such
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
			n.sim.logger.Warn("the simulator could not note which webhooks are sent, and may send them again", "error", err)
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

// stop ends all sending. What is not sent is sent by the next process.
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
	rec, id, failed := n.sim.told(d.record)
	charge, refund := n.sim.book.refundOf[uint32(id)]
	n.sim.mu.Unlock()
	now := n.sim.now()

	var body []byte
	var err error
	header := http.Header{"Content-Type": {"application/json"}}
	if d.target.Stripe {
		if body, err = json.Marshal(stripeEvent(rec, d.record, id, int(charge), refund, failed)); err != nil {
			return err
		}
		header.Set("Stripe-Signature", stripeSignature(d.target.Secret, now, body))
	} else {
		out := describe(rec, id)
		if failed {
			out.ID = formatID(rec.kind(), id)
			out.failed()
		}
		if body, err = json.Marshal(event{eventID(d.record), string(rec.kind()) + "." + out.Status, out.Created, out}); err != nil {
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

func (s *Simulator) serveSetNotices(w http.ResponseWriter, r *http.Request) {
	var wire noticesWire
	status, err := readJSON(w, r, &wire)
	if err == nil {
		var set Notices
		if set, err = wire.notices(); err == nil {
			err = s.SetNotices(set)
		}
	}
	if err != nil {
		refuse(w, status, "invalid", "invalid_request", err.Error())
		return
	}
	write(w, http.StatusOK, s.NoticeStats())
}

func (s *Simulator) serveRelease(w http.ResponseWriter, r *http.Request) {
	count, err := s.ReleaseNotices(r.URL.Query().Get("order"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", err.Error())
		return
	}
	write(w, http.StatusOK, released{count})
}
