package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStormThroughAGateway sends many keys through three regions of a gateway, in front of an API
// that fails in every way that a sender can see. Meanwhile regions are parted, one is lost, and the
// process is killed. Then it counts what the API did, and reads each answer again in every region.
//
// It has the machine to itself, as TestStorm does.
func TestStormThroughAGateway(t *testing.T) {
	headers := []string{"", "Idempotency-Key", "X-Once"}
	size := gatewayStormSize{clients: 100, keys: 1_000, kills: 3}
	if testing.Short() {
		headers, size = headers[:2], gatewayStormSize{clients: 24, keys: 120, kills: 2}
	}
	for _, header := range headers {
		t.Run(cmp.Or(header, "no repeats"), func(t *testing.T) {
			t.Parallel() // they wait for kills and leases more than they compute
			s := newGatewayStorm(t, size, header)
			s.run()
			s.judge()
		})
	}
}

type gatewayStormSize struct{ clients, keys, kills int }

// unruly is an API that draws what becomes of each request. It recognises a repeat by the header of
// that name, "" for by none. Each effect mints a number, so that no two of them answer alike.
type unruly struct {
	*httptest.Server
	dedupe string
	busy   sync.WaitGroup

	mu      sync.Mutex
	rng     *rand.Rand
	minted  int
	doubts  int               // requests that left their sender in doubt
	replies map[string]string // of what was done, by the value of the header for repeats
	seen    map[string]*unrulySeen
}

// unrulySeen is what happened to a key.
type unrulySeen struct {
	effects int
	sends   int    // requests but those that were answered 429
	doubt   string // what became of the last of them, "" if it was answered
}

// fate is what becomes of a request.
type fate string

const (
	fateAnswers     fate = "answered"
	fateTooMany     fate = "429, and nothing done"
	fateFailsBefore fate = "500, and nothing done"
	fateFailsAfter  fate = "500 after the effect"
	fateInUse       fate = "409, and nothing done"
	fateCloses      fate = "no reply to the effect"
	fateResets      fate = "the connection reset after the effect"
	fateHalfHead    fate = "half a head of a reply"
	fateHalfBody    fate = "half a body of a reply"
	fateHangs       fate = "no reply in time"
	fateLate        fate = "an effect after its sender gave up"
)

// doubts are the fates that leave a sender in doubt.
var doubts = []fate{fateFailsBefore, fateFailsAfter, fateInUse, fateCloses, fateResets, fateHalfHead, fateHalfBody, fateHangs, fateLate}

func newUnruly(t *testing.T, dedupe string) *unruly {
	u := &unruly{dedupe: dedupe, rng: rand.New(rand.NewPCG(stormSeed, 2)), replies: map[string]string{}, seen: map[string]*unrulySeen{}}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

// draw is what becomes of a request for key. A card that is stolen is refused, if it is answered.
func (u *unruly) draw(key string) fate {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := fateAnswers
	switch p := u.rng.IntN(100); {
	case p < 25:
		f = doubts[u.rng.IntN(len(doubts))]
	case p < 35:
		f = fateTooMany
	}
	is := u.seen[key]
	if is == nil {
		is = &unrulySeen{}
		u.seen[key] = is
	}
	if f == fateTooMany {
		return f
	}
	is.sends++
	if is.doubt = ""; f != fateAnswers {
		is.doubt = string(f)
		u.doubts++
	}
	return f
}

// do does what a request asks for, unless it recognises a repeat.
func (u *unruly) do(r *http.Request, body []byte) (status int, text string) {
	if strings.Contains(string(body), "stolen") {
		return http.StatusPaymentRequired, `{"error":"stolen"}`
	}
	key := r.Header.Get("Idempotency-Key")
	u.mu.Lock()
	defer u.mu.Unlock()
	same := r.Header.Get(u.dedupe)
	if text, ok := u.replies[same]; ok && u.dedupe != "" {
		return http.StatusCreated, text
	}
	u.minted++
	u.seen[key].effects++
	text = fmt.Sprintf(`{"n":%d,"key":%q,"got":%q}`, u.minted, key, body)
	u.replies[same] = text
	return http.StatusCreated, text
}

func (u *unruly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.busy.Add(1)
	defer u.busy.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f := u.draw(r.Header.Get("Idempotency-Key"))
	var status int
	var text string
	switch f {
	case fateTooMany:
		status, text = http.StatusTooManyRequests, `{"error":"slow down"}`
	case fateFailsBefore:
		status, text = http.StatusInternalServerError, `{"error":"before"}`
	case fateInUse:
		status, text = http.StatusConflict, `{"error":"in use"}`
	case fateLate:
		<-r.Context().Done()
		u.do(r, body)
		return
	default:
		status, text = u.do(r, body)
	}
	switch f {
	case fateFailsAfter:
		status, text = http.StatusInternalServerError, `{"error":"after"}`
	case fateHangs:
		<-r.Context().Done()
		return
	case fateCloses, fateResets, fateHalfHead, fateHalfBody:
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		switch f {
		case fateResets:
			_ = conn.(*net.TCPConn).SetLinger(0)
		case fateHalfHead:
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d OK\r\nContent-Le", status)
		case fateHalfBody:
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%s", status, len(text)+1, text)
		}
		_ = conn.Close()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// gatewayStormKey is a key with all that is sent under it.
type gatewayStormKey struct {
	key    string
	bodies []string // of its rivals
	last   []*reply
}

type gatewayStorm struct {
	t        *testing.T
	ctx      context.Context
	size     gatewayStormSize
	upstream *unruly
	bases    map[string]string
	keys     []*gatewayStormKey
	start    func() *child
	process  *child
	requests atomic.Int64
	none     atomic.Int64 // without a reply
}

func newGatewayStorm(t *testing.T, size gatewayStormSize, header string) *gatewayStorm {
	u, port := newUnruly(t, header), ports(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	t.Cleanup(cancel)
	s := &gatewayStorm{t: t, ctx: ctx, size: size, upstream: u, bases: demoBases(port)}
	c := childConfig{
		Dir: t.TempDir(), PSP: u.URL, Gateway: u.URL, Dedupe: header, backend: newBackend(t), Port: port, WAN: stormDistances,
		UpstreamTimeout: time.Second,
	}
	if header == "" {
		c.Policy.MaxUnknowns = 5 // there is nothing to learn
	}
	s.start = func() *child { return startChild(t, c) }
	rng := rand.New(rand.NewPCG(stormSeed, 3))
	for i := range size.keys {
		k := &gatewayStormKey{key: fmt.Sprintf("storm-%d", i)}
		if rng.IntN(2) == 0 {
			k.key = stamped(t, regions[rng.IntN(len(regions))])
		}
		card := "visa"
		if rng.IntN(10) == 0 {
			card = "stolen"
		}
		mixed := rng.IntN(100) < 15
		for range 1 + rng.IntN(5) {
			amount := i
			if mixed && rng.IntN(2) == 0 {
				amount += size.keys
			}
			k.bodies = append(k.bodies, fmt.Sprintf(`{"amount":%d,"card":%q}`, amount, card))
		}
		k.last = make([]*reply, len(k.bodies))
		s.keys = append(s.keys, k)
	}
	return s
}

// run sends everything. Between kills, regions are parted and one is lost.
func (s *gatewayStorm) run() {
	s.process = s.start()
	queue, through := make(chan *gatewayStormKey, len(s.keys)), make(chan struct{}, len(s.keys))
	for _, k := range s.keys {
		queue <- k
	}
	close(queue)
	var clients sync.WaitGroup
	for range s.size.clients {
		clients.Go(func() {
			for k := range queue {
				s.send(k)
				through <- struct{}{}
			}
		})
	}
	part := len(s.keys) / (4 * (s.size.kills + 1)) // four parts to each life of the process
	for n := 1; n <= len(s.keys); n++ {
		select {
		case <-through:
		case <-s.process.dead:
			require.FailNow(s.t, "the process ended by itself", "%v", s.process.cmd.ProcessState)
		case <-time.After(patience):
			s.process.dump()
			require.FailNow(s.t, "the storm does not end", "%d of %d keys are through", n-1, len(s.keys))
		}
		if n%part > 0 {
			continue
		}
		lives := n / part / 4
		switch step := n / part % 4; {
		case lives > s.size.kills:
		case step == 1:
			s.process.tell("cut", regions[lives%3], regions[(lives+1)%3])
		case step == 2:
			s.process.tell("heal", regions[lives%3], regions[(lives+1)%3])
		case step == 3 && lives < s.size.kills:
			s.process.tell("lose", regions[(lives+2)%3])
		case step == 0 && lives <= s.size.kills:
			s.process.kill()
			s.process = s.start()
		}
	}
	clients.Wait()
}

// send sends a key's requests at once, each until its answer is final. A retry goes to any region.
func (s *gatewayStorm) send(k *gatewayStormKey) {
	var rivals sync.WaitGroup
	for i, body := range k.bodies {
		rivals.Go(func() { k.last[i] = s.settle(k.key, body, rand.N(len(regions))) })
	}
	rivals.Wait()
}

func (s *gatewayStorm) settle(key, body string, at int) *reply {
	for ; s.ctx.Err() == nil; at++ {
		s.requests.Add(1)
		r, err := post(s.ctx, s.bases[regions[at%len(regions)]], "/orders", key, body)
		if err != nil {
			s.none.Add(1)
		} else if _, retry := r.code(); retry != "same_key" && r.status != http.StatusTooManyRequests {
			return r
		}
		_ = wait(s.ctx, 20*time.Millisecond+rand.N(80*time.Millisecond))
	}
	return &reply{}
}

// judge reads each answer once more in every region, and compares it with what the API did.
func (s *gatewayStorm) judge() {
	t := s.t
	winners := make([]string, len(s.keys)) // their bodies
	var readers sync.WaitGroup
	differing := make(chan string, len(s.keys)*(len(regions)+1))
	next := make(chan int, len(s.keys))
	for i := range s.keys {
		next <- i
	}
	close(next)
	for range s.size.clients {
		readers.Go(func() {
			for i := range next {
				k := s.keys[i]
				first := s.winner(k)
				if first < 0 {
					differing <- k.key + ": no request won"
					continue
				}
				winners[i] = k.bodies[first]
				for at := range regions {
					if again := s.settle(k.key, k.bodies[first], at); again.status != k.last[first].status || again.body != k.last[first].body {
						differing <- fmt.Sprintf("%s: %d %s in %s, at first %d %s", k.key, again.status, again.body, regions[at], k.last[first].status, k.last[first].body)
					}
				}
			}
		})
	}
	readers.Wait()
	close(differing)
	for text := range differing {
		t.Error(text)
	}
	s.process.kill()
	s.upstream.busy.Wait()

	var done, refused, open, changed, effects int
	for i, k := range s.keys {
		is, first := s.upstream.seen[k.key], s.winner(k)
		if is == nil {
			is = &unrulySeen{} // the process died between the record and the send
		}
		effects += is.effects
		if is.effects > 1 || s.upstream.dedupe == "" && is.sends > 1 {
			t.Errorf("%s had %d effects and was sent %d times", k.key, is.effects, is.sends)
		}
		if first < 0 {
			continue
		}
		for n, r := range k.last {
			code, _ := r.code()
			switch mine := k.bodies[n] == winners[i]; {
			case !mine && code == "idempotency_key_fingerprint_mismatch":
				changed++
			case !mine:
				t.Errorf("%s: a changed body was answered %d %s", k.key, r.status, r.body)
			case r.status != k.last[first].status || r.body != k.last[first].body:
				t.Errorf("%s: %d %s, at first %d %s", k.key, r.status, r.body, k.last[first].status, k.last[first].body)
			}
		}
		got := k.last[first]
		code, retry := got.code()
		stolen := strings.Contains(winners[i], "stolen")
		var is201 struct{ Key, Got string }
		switch {
		case got.status == http.StatusCreated:
			done++
			require.NoError(t, json.Unmarshal([]byte(got.body), &is201))
			if is.effects != 1 || is201.Key != k.key || is201.Got != winners[i] {
				t.Errorf("%s: %d effects, answered %s", k.key, is.effects, got.body)
			}
			if s.upstream.dedupe == "" && is.doubt != "" {
				t.Errorf("%s: %s, and it was answered %s", k.key, is.doubt, got.body)
			}
		case got.status == http.StatusPaymentRequired && stolen && is.effects == 0 && is.doubt == "":
			refused++
		case code == "outcome_unknown" && retry == "never" && (s.upstream.dedupe == "" || stolen):
			open++
		default:
			t.Errorf("%s: %d effects, %q, answered %d %s", k.key, is.effects, is.doubt, got.status, got.body)
		}
	}
	t.Logf("%s, %d keys: %d requests, %d without a reply, %d changed; %d done, %d refused, %d unknown for good; the API had %d effects and left %d requests in doubt",
		testStore(), len(s.keys), s.requests.Load(), s.none.Load(), changed, done, refused, open, effects, s.upstream.doubts)
	require.NotZero(t, done)
	require.NotZero(t, refused)
	require.NotZero(t, changed)
	require.NotZero(t, s.upstream.doubts)
	require.NotZero(t, s.none.Load(), "no request met a kill")
	if s.upstream.dedupe == "" {
		require.NotZero(t, open)
	}
}

// winner is the request that the key belongs to, -1 if none of them was answered as such.
func (*gatewayStorm) winner(k *gatewayStormKey) int {
	return slices.IndexFunc(k.last, func(r *reply) bool {
		code, _ := r.code()
		return r.status != 0 && code != "idempotency_key_fingerprint_mismatch"
	})
}
