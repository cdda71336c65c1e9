package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/e2e/history"
)

const (
	// clients send at the same time, each rivals requests under its key: as many as two cores carry
	// beside the cluster.
	clients = 6
	rivals  = 3
	// warm is how many keys are through before a scenario takes anything away.
	warm = 15
	// attemptTime is how long a client waits for one answer: longer than the slowest healthy answer,
	// a provider's time-out and two ways.
	attemptTime = 7 * time.Second
	// longestPause bounds a client's wait before a retry, also below Retry-After.
	longestPause = time.Second
)

// request is what a merchant sends.
type request struct{ tenant, key, body string }

func charge(tenant, key string, amount int64, card string) request {
	return request{tenant, key, fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":%q}`, amount, card)}
}

// servedBy returns the region that answered.
func servedBy(r *answer.Answer) string {
	if r.Header == nil {
		return ""
	}
	return r.Header.Get("Homeward-Served-By")
}

func pauseAfter(r *answer.Answer) time.Duration {
	retryAfter := time.Duration(r.Problem.RetryAfterMS) * time.Millisecond
	return min(retryAfter, longestPause) + 50*time.Millisecond + rand.N(100*time.Millisecond)
}

// send makes one attempt at one node.
func (c *cluster) send(ctx context.Context, at member, q request) *answer.Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.url+"/v1/charges", bytes.NewReader([]byte(q.body)))
	if err != nil {
		return &answer.Answer{Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+c.keys[q.tenant])
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", q.key)
	return answer.To(req, c.http)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load is the traffic of one scenario.
type load struct {
	c       *cluster
	ctx     context.Context // of every request
	cancel  context.CancelFunc
	first   int64 // no two keys share an amount, in all scenarios
	history history.History
	ending  chan struct{}
	running sync.WaitGroup
	through chan struct{} // one for each key that is through, as long as the scenario reads them

	next               atomic.Int64
	requests, no, none atomic.Int64 // sent; answered 503; not answered

	mu   sync.Mutex
	sent []*send
	why  map[string]int // 503s by error
}

// send is one request and its last answer.
type send struct {
	request
	amount int64
	hard   bool // the card is stolen
	last   *answer.Answer
}

// amountsEach is more than any scenario uses.
const amountsEach = 1_000_000

// begin starts the clients.
func (c *cluster) begin(ctx context.Context, scenario int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{
		c: c, ctx: ctx, cancel: cancel, first: int64(scenario+1) * amountsEach, ending: make(chan struct{}),
		through: make(chan struct{}, warm), why: map[string]int{},
	}
	for client := range clients {
		l.running.Go(func() {
			for {
				select {
				case <-l.ending:
					return
				case <-ctx.Done():
					return
				default:
					l.key(client)
				}
				select {
				case l.through <- struct{}{}:
				default:
				}
			}
		})
	}
	return l
}

// end lets the clients finish their keys, within patience.
func (l *load) end() {
	select {
	case <-l.ending:
	default:
		close(l.ending)
	}
	giveUp := time.AfterFunc(patience, l.cancel)
	defer giveUp.Stop()
	l.running.Wait()
}

// amount returns an amount that no other key has.
func (l *load) amount() int64 { return l.first + l.next.Add(1) }

// anywhere returns any node.
func (l *load) anywhere() member { return l.c.members[rand.IntN(len(l.c.members))] }

func (l *load) anyTenant() string { return tenants[rand.IntN(len(tenants))] }

// key sends rivals under one new key and retries each after Retry-After, anywhere.
func (l *load) key(client int) {
	amount, card, hard := l.amount(), "pm_card_visa", false
	key := fmt.Sprintf("order-%d", amount)
	if rand.IntN(2) == 0 {
		key = stamped(regions[rand.IntN(len(regions))])
	}
	switch rand.IntN(20) {
	case 0:
		card, hard = "pm_card_stolen", true
	case 1, 2:
		card = "pm_card_insufficient_funds_once"
	}
	tenant, other := l.anyTenant(), rand.IntN(10) == 0
	var all sync.WaitGroup
	for i := range rivals {
		s := &send{request: charge(tenant, key, amount, card), amount: amount, hard: hard}
		if other && i > 0 { // the others send another amount
			if i == 1 {
				amount = l.amount()
			}
			s.amount, s.request = amount, charge(tenant, key, amount, card)
		}
		all.Go(func() { l.settle(l.ctx, client*rivals+i, s, l.anywhere) })
	}
	all.Wait()
}

func stamped(region string) string {
	key, err := claim.Stamp(codes[region], nil)
	if err != nil {
		panic(err) // the system's randomness does not fail
	}
	return key
}

// settle sends a request until an answer is final or ctx ends.
func (l *load) settle(ctx context.Context, client int, s *send, where func() member) *answer.Answer {
	l.mu.Lock()
	l.sent = append(l.sent, s)
	l.mu.Unlock()
	for {
		r := l.attempt(ctx, client, s, where(), attemptTime)
		if r.Final() || wait(ctx, pauseAfter(r)) != nil {
			return r
		}
	}
}

// attempt sends once and records the result.
func (l *load) attempt(ctx context.Context, client int, s *send, at member, patience time.Duration) *answer.Answer {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := l.c.send(ctx, at, s.request)
	l.history.Add(client, history.Sent{Key: s.tenant + "/" + s.key, Body: s.body}, start, r.Got())
	l.requests.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.last == nil || !s.last.Final() {
		// An attempt that hung may return after another got a final answer: the history has
		// both.
		s.last = r
	}
	switch {
	case r.Err != nil:
		l.none.Add(1)
	case r.Status == http.StatusServiceUnavailable:
		l.no.Add(1)
		l.why[r.Problem.Error]++
	}
	return r
}

// probeClient is the scenario's own number in the history.
const probeClient = clients * rivals

// fresh is a new charge under a key that is at home in a region.
func (l *load) fresh(home string) *send {
	amount := l.amount()
	return &send{request: charge(l.anyTenant(), stamped(home), amount, "pm_card_visa"), amount: amount}
}

// pay makes a new charge at one node, under a key that is at home in a region, and
// returns the final answer.
func (l *load) pay(at member, home string) *answer.Answer {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	return l.settle(ctx, probeClient, l.fresh(home), func() member { return at })
}

// tally counts the requests and answers of a scenario.
type tally struct {
	Keys, Completed, Declined int
	Requests, No, None        int64
	Why                       map[string]int
}

// effect is the part of the simulator's effects that judge compares.
type effect struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
}

// judge checks every promise and counts in v. Call it after end.
func (l *load) judge(t *testing.T, v *tally) {
	t.Helper()
	v.Requests, v.No, v.None, v.Why = l.requests.Load(), l.no.Load(), l.none.Load(), l.why
	byKey := map[string][]*send{}
	for _, s := range l.sent {
		require.True(t, s.last.Final(), "%s has no final answer: %v", s.key, s.last)
		byKey[s.tenant+"/"+s.key] = append(byKey[s.tenant+"/"+s.key], s)
	}
	v.Keys = len(byKey)
	want := map[effect]int{}
	winners := make([]*send, 0, len(byKey))
	for key, sends := range byKey {
		i := slices.IndexFunc(sends, func(s *send) bool { return s.last.Status != http.StatusUnprocessableEntity })
		require.GreaterOrEqual(t, i, 0, "%s: all requests were refused", key)
		winner := sends[i]
		for _, s := range sends {
			if s.body != winner.body {
				require.Equal(t, http.StatusUnprocessableEntity, s.last.Status, "%s answered two requests", key)
			} else {
				require.Equal(t, winner.last.Remembered(), s.last.Remembered(), "%s: two answers", key)
			}
		}
		winners = append(winners, winner)
		if winner.hard {
			require.Equal(t, http.StatusPaymentRequired, winner.last.Status, "%s: %v", key, winner.last)
			v.Declined++
			continue
		}
		require.Equal(t, http.StatusCreated, winner.last.Status, "%s: %v", key, winner.last)
		v.Completed++
		var object struct{ ID string }
		require.NoError(t, json.Unmarshal(winner.last.Body, &object))
		want[effect{object.ID, winner.amount}]++
	}
	l.replay(t, winners)
	require.Equal(t, want, l.moved(t), "merchants' answers, and how often money moved")
	require.Equal(t, porcupine.Ok, l.history.Check(patience), "the histories of the keys fit no order of events")
}

// replay sends every key's request once more, anywhere, and expects the same bytes.
func (l *load) replay(t *testing.T, winners []*send) {
	t.Helper()
	var different atomic.Int64
	queue := make(chan *send, len(winners))
	for _, w := range winners {
		queue <- w
	}
	close(queue)
	var all sync.WaitGroup
	for client := range clients * rivals {
		all.Go(func() {
			for w := range queue {
				again := *w
				r := l.settle(l.ctx, client, &again, l.anywhere)
				if !assert.Equal(t, w.last.Remembered(), fmt.Sprint(r), w.key) {
					different.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, different.Load(), "replays that differ")
}

// movements counts by effect how often the simulator moved money for this load so far.
func (l *load) movements() (map[effect]int, error) {
	text, err := l.c.get(l.ctx, simulatorURL()+"/_sim/effects")
	if err != nil {
		return nil, err
	}
	moved := map[effect]int{}
	for line := range strings.Lines(string(text)) {
		var e effect
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		if e.Amount > l.first && e.Amount <= l.first+amountsEach {
			moved[e]++
		}
	}
	return moved, nil
}

// moved is movements at the end, when the simulator must have no duplicates.
func (l *load) moved(t *testing.T) map[effect]int {
	t.Helper()
	moved, err := l.movements()
	require.NoError(t, err)
	var stats struct {
		DuplicateEffects int64 `json:"duplicate_effects"`
		KeyReuses        int64 `json:"key_reuses"`
	}
	text, err := l.c.get(l.ctx, simulatorURL()+"/_sim/stats")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &stats))
	require.Zero(t, stats, "duplicates, and provider keys with other parameters")
	return moved
}

func simulatorURL() string { return fmt.Sprintf("http://%s.0.20:8090", network()) }

// faults is the simulator's behaviour, in its JSON.
type faults struct {
	Latency    int64   `json:"latency_ms"`
	Jitter     int64   `json:"jitter_ms"`
	ErrorAfter float64 `json:"error_after"` // charged, then 500
	DropReply  float64 `json:"drop_reply"`  // charged, then the connection is cut
}

var (
	// everyday is a provider with some faults.
	everyday = faults{Latency: 40, Jitter: 20, ErrorAfter: 0.02, DropReply: 0.02}
	// holding keeps calls for a while before it decides: less than the nodes' patience,
	// HOMEWARD_PROVIDER__TIMEOUT.
	holding = faults{Latency: 4000}
	// mute charges and sends no answer.
	mute = faults{DropReply: 1}
)

// provider sets the simulator's faults from now on.
func (c *cluster) provider(f faults) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPut, simulatorURL()+"/_sim/faults", bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the simulator answers %s", res.Status)
	}
	return errors.Join(err, res.Body.Close())
}

// keep saves the history, and the simulator's effects.
func (l *load) keep(dir string) error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, o := range l.history.Operations() {
		if err := enc.Encode(o); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "history.ndjson"), lines.Bytes(), 0o600); err != nil {
		return err
	}
	if result, info := porcupine.CheckOperationsVerbose(history.Model, l.history.Operations(), patience); result == porcupine.Illegal {
		if err := porcupine.VisualizePath(history.Model, info, filepath.Join(dir, "history.html")); err != nil {
			return err
		}
	}
	effects, err := l.c.get(l.c.ctx, simulatorURL()+"/_sim/effects")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "effects.ndjson"), effects, 0o600)
}
